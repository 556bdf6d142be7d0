"""The token of a command, from its option or from the environment."""

from __future__ import annotations

import os

TOKEN_VARIABLE = "DJANGO_MCP_TOKEN"  # noqa: S105 - the name of a variable


def take_token(option: str | None) -> str | None:
    """Return the token that the option or the environment holds, and None if neither does.

    It is removed from the environment, which processes that the command starts inherit.
    """
    in_environment = os.environ.pop(TOKEN_VARIABLE, None)
    # An empty option is a wrong token, and not the lack of one.
    return (in_environment or None) if option is None else option
