"""Run commands of the example shop as a shell does."""

from tests.support.commands import shell

__all__ = ["shell"]
