"""Words: a plan as commands that a person can read, paste and keep."""

from __future__ import annotations

from ascend_ocrvl.render.docker import docker, docker_argv, docker_text, engine_notes
from ascend_ocrvl.render.nginx import nginx_text
from ascend_ocrvl.render.script import script_text

__all__ = ["docker", "docker_argv", "docker_text", "engine_notes", "nginx_text", "script_text"]
