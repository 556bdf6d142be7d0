"""What the modules of this package declare their checks with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from django.core.checks import CheckMessage, Tags
from django.core.exceptions import ImproperlyConfigured

Check: TypeAlias = Callable[..., list[CheckMessage]]

DIRECTORIES_TAG = "mcp_directories"
"""Of what directories of servers demand: `manage.py check --tag mcp_directories`."""

declared: dict[tuple[tuple[str, ...], bool], list[Check]] = {
    ((), False): [],
    ((Tags.security,), False): [],
    ((), True): [],
    ((Tags.security,), True): [],
    ((DIRECTORIES_TAG,), False): [],
}
"""The checks, by their tags and whether they are for deployment alone."""


def check(
    *tags: str, id: str | None = None, deploy: bool = False
) -> Callable[[Callable[[], Iterable[CheckMessage]]], Check]:
    """Add a function that yields messages to the checks of this package.

    A setting that it cannot read ends it, since E001 reports that.

    Args:
        tags: none, `Tags.security`, or `DIRECTORIES_TAG`.
        id: of the messages that have none.
    """

    def decorate(find: Callable[[], Iterable[CheckMessage]]) -> Check:
        def run(**_kwargs: Any) -> list[CheckMessage]:
            messages: list[CheckMessage] = []
            with suppress(ImproperlyConfigured):
                messages.extend(find())
            for message in messages:
                message.id = message.id or id
            return messages

        declared[tags, deploy].append(run)
        return run

    return decorate


def list_some(names: list[str]) -> str:
    """Return the first names for a message, and whether there are more."""
    return ", ".join(names[:5]) + (" and more" if len(names) > 5 else "")
