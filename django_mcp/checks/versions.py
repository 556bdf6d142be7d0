"""System check of the installed versions, against the minimum versions of the requirements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from typing import Any, NamedTuple

from django.core.checks import CheckMessage, Tags, Warning, register  # noqa: A004 - Django's name

__all__ = ["Outdated", "find_outdated"]

DISTRIBUTION = "django-mcp-endpoints"

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_FLOOR = re.compile(r"(>=|!=)\s*([0-9][0-9.]*)(?![0-9.*])")
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)*")


class Outdated(NamedTuple):
    """A distribution with an unsupported version, and the supported ones."""

    name: str
    version: str
    wanted: str


@register("django_mcp", Tags.security)
def check_versions(**_kwargs: Any) -> list[CheckMessage]:
    """W013: an installed version is too old, or excluded."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:
        # The package is not installed, but used from a folder.
        return []
    return [
        Warning(
            f"{each.name} {each.version} is installed, which may have known security holes.",
            hint=f"Install {each.name} {each.wanted}.",
            id="django_mcp.W013",
        )
        for each in find_outdated(requirements, find_version)
    ]


def find_version(name: str) -> str | None:
    """Return the installed version of a distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def find_outdated(
    requirements: Iterable[str], find_version: Callable[[str], str | None]
) -> Iterator[Outdated]:
    """Yield the distributions whose installed version a requirement does not allow.

    Args:
        requirements: from the metadata of a distribution. Those of the extra `dev` do not count.
        find_version: returns the installed version of a distribution, or None.
    """
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found is None or "dev" in (found[3] or ""):
            continue
        name, wanted = found[1], found[2].strip()
        version = find_version(name)
        if version is not None and not _is_right(version, wanted):
            yield Outdated(name, version, wanted)


def _is_right(version: str, wanted: str) -> bool:
    installed = _numbers(version)
    return all(
        installed >= _numbers(bound) if operator == ">=" else installed != _numbers(bound)
        for operator, bound in _FLOOR.findall(wanted)
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without zeros at the end: 6.0 and 6.0.0 are one."""
    found = _NUMBERS.match(version)
    numbers = [int(each) for each in found.group().split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
