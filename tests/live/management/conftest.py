"""Run commands of the example shop as a shell does."""

from tests.support.commands import server_in_urlconf, shell

__all__ = ["server_in_urlconf", "shell"]
