"""The test site with OpenID Connect on."""

from django_mcp.contrib.oauth import oauth2_provider_settings
from tests.settings import *  # noqa: F403  (a settings module is read by its names)

OAUTH2_PROVIDER = oauth2_provider_settings(
    {"mcp": "Use this site's tools", "openid": "Know who you are"}, OIDC_ENABLED=True
)
DJANGO_MCP = {"PUBLIC": True}
