"""The example shop with OAuth on, served beside the tests."""

from tests.support.oauth.browser import certificate, shop

__all__ = ["certificate", "shop"]
