"""Deeds: a plan to running services, step by step, and back again when a step fails.

Whatever touches a host goes through its :class:`~ascend_ocrvl.host.transport.Transport`; nothing prints.
"""
