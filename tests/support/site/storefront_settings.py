"""The example shop in strict mode."""

from example_project.settings import *  # noqa: F403
from example_project.settings import DJANGO_MCP

DJANGO_MCP = {**DJANGO_MCP, "STRICT": True}
