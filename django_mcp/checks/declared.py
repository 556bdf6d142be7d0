"""Decorator with which the modules of this package declare their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from django.core.checks import CheckMessage, Tags
from django.core.exceptions import ImproperlyConfigured

Check: TypeAlias = Callable[..., list[CheckMessage]]

declared: dict[tuple[tuple[str, ...], bool], list[Check]] = {
    ((), False): [],
    ((Tags.security,), False): [],
    ((), True): [],
}
"""The checks, by their tags and whether they are for deployment alone."""


def check(
    *tags: str, id: str | None = None, deploy: bool = False
) -> Callable[[Callable[[], Iterable[CheckMessage]]], Check]:
    """Add a function that yields messages to the checks of this package.

    A setting that it cannot read ends it, since E001 reports that.

    Args:
        tags: none, or `Tags.security`.
        id: of the messages that have none.
    """

    def decorate(find: Callable[[], Iterable[CheckMessage]]) -> Check:
        def run(**_kwargs: Any) -> list[CheckMessage]:
            found: list[CheckMessage] = []
            with suppress(ImproperlyConfigured):
                found.extend(find())
            for each in found:
                each.id = each.id or id
            return found

        declared[tags, deploy].append(run)
        return run

    return decorate
