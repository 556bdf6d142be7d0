"""The example shop's settings under SHOP_OAUTH=1, with what tests need changed."""

import os

os.environ["SHOP_OAUTH"] = "1"
os.environ["SHOP_URL"] = ""

from example_project.settings import *  # noqa: F403  (read by its names)
from example_project.settings import INSTALLED_APPS, OAUTH2_PROVIDER

SECRET_KEY = "only-for-tests"
DEBUG = False
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "daphne"]
ROOT_URLCONF = "example_project.urls"
LOGGING = {}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
OAUTH2_PROVIDER = {
    **OAUTH2_PROVIDER,
    "CIMD_METADATA_FETCHER": "tests.support.oauth.local_documents.LocalFetcher",
}
