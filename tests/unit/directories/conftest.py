"""Run commands in this process."""

from tests.support.commands import run

__all__ = ["run"]
