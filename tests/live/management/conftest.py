"""Run commands of the example shop as a shell does."""

from tests.support.commands import run, shell, shop

__all__ = ["run", "shell", "shop"]
