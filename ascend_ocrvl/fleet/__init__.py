"""Many hosts: the fleet file, and doing one thing on all of them at once."""

from ascend_ocrvl.fleet.file import Fleet, FleetHost, json_schema, parse_fleet

__all__ = ["Fleet", "FleetHost", "json_schema", "parse_fleet"]
