"""System checks. docs/reference/checks.md lists them; `check --deploy` adds those with `deploy=True`.

Importing this registers them. Their modules are imported when they are run: a server's start does not run them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from django.core.checks import CheckMessage, Tags, register
from django.core.exceptions import ImproperlyConfigured

__all__ = ["check"]

Check: TypeAlias = Callable[..., list[CheckMessage]]

_checks: dict[tuple[tuple[str, ...], bool], list[Check]] = {
    ((), False): [],
    ((Tags.security,), False): [],
    ((), True): [],
}
"""The checks of these modules, by their tags and whether they are for deployment alone."""


def check(
    *tags: str, id: str | None = None, deploy: bool = False
) -> Callable[[Callable[[], Iterable[CheckMessage]]], Check]:
    """Add a function that yields messages to the checks of one of these modules.

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

        _checks[tags, deploy].append(run)
        return run

    return decorate


def _runner(checks: list[Check]) -> Check:
    def run(**kwargs: Any) -> list[CheckMessage]:
        # Each adds its own checks when it is imported.
        from django_mcp.checks import access, entries, serving, site, versions  # noqa: F401
        from django_mcp.checks import settings as _settings  # noqa: F401

        return [message for each in checks for message in each(**kwargs)]

    return run


for (_tags, _deploy), _found in _checks.items():
    register(_runner(_found), "django_mcp", *_tags, deploy=_deploy)
