"""The example shop for clients of the newest revision only, which has no handshake."""

from example_project.settings import *  # noqa: F403  (a settings module is read by its names)
from example_project.settings import DJANGO_MCP

DJANGO_MCP = {**DJANGO_MCP, "REVISIONS": ["2026-07-28"]}
