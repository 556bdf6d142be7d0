"""The key and certificate of a client's own server."""

from tests.support.oauth.browser import certificate

__all__ = ["certificate"]
