"""Run commands of the example shop in this process."""

from tests.support.commands import run, server_in_urlconf, shop

__all__ = ["run", "server_in_urlconf", "shop"]
