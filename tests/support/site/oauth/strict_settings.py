"""The same site, which serves no static files and allows styles only in files of its own."""

from tests.support.site.oauth.settings import *  # noqa: F403  (a settings module is read by its names)
from tests.support.site.oauth.settings import MIDDLEWARE

MIDDLEWARE = ["tests.support.site.browser.middleware.StrictPolicy", *MIDDLEWARE]
