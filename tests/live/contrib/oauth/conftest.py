"""The example shop with OAuth on, served beside the tests."""

from tests.support.oauth.browser import certificate, published, shop

__all__ = ["certificate", "published", "shop"]
