"""The example shop in strict mode, with a server for the tools of every source."""

from example_project.settings import *  # noqa: F403
from example_project.settings import DJANGO_MCP

ROOT_URLCONF = "tests.support.site.shop_sources.urls"
DJANGO_MCP = {**DJANGO_MCP, "STRICT": True}
