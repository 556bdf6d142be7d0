"""A server that only the URLconf knows."""

from tests.support.commands import server_in_urlconf

__all__ = ["server_in_urlconf"]
