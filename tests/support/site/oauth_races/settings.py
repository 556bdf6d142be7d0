"""A site on a database of the environment, whose requests for tokens can be made to meet."""

from django_mcp.contrib.oauth import oauth2_provider_settings
from tests.support.site.everywhere.settings import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.everywhere.settings import DATABASES

# As SQLite is without options: a transaction takes the lock at its first write.
DATABASES["default"].get("OPTIONS", {}).pop("transaction_mode", None)
DATABASES["default"]["ATOMIC_REQUESTS"] = True
OAUTH2_PROVIDER = oauth2_provider_settings(
    OAUTH2_VALIDATOR_CLASS="tests.support.site.oauth_races.validator.MeetingValidator"
)
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Tables are made as the models are now, which is quicker.
MIGRATION_MODULES = dict.fromkeys(
    [
        "auth",
        "authtoken",
        "contenttypes",
        "django_mcp",
        "django_mcp_oauth",
        "oauth2_provider",
        "sessions",
    ]
)
