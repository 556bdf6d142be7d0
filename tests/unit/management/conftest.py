"""Run commands of the example shop in this process."""

from tests.support.commands import run, shop

__all__ = ["run", "shop"]
