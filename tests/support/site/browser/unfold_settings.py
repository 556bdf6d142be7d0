"""The same site under django-unfold, whose own pages need scripts and styles that are inline."""

from tests.support.site.browser.settings import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.browser.settings import INSTALLED_APPS, MIDDLEWARE

INSTALLED_APPS = ["unfold", *INSTALLED_APPS]
MIDDLEWARE = [name for name in MIDDLEWARE if not name.endswith(".StrictPolicy")]
