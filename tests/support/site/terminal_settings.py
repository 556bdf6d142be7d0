"""A site with one tool that reports progress."""

from tests.settings import *  # noqa: F403  (a settings module is read by its names)
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.site.terminal"]
