"""A server that is defined only in the URLconf."""

from tests.support.commands import server_in_urlconf

__all__ = ["server_in_urlconf"]
