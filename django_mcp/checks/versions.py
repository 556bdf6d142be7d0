"""System checks of the installed distributions: their versions, and another one with this name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata

from django.core.checks import CheckMessage, Error, Tags, Warning  # noqa: A004 - Django's name

from django_mcp.checks.declared import check

DISTRIBUTION = "django-mcp-endpoints"

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_FLOOR = re.compile(r"(>=|!=)\s*([0-9][0-9.]*)(?![0-9.*])")
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)*")


@check(Tags.security, id="django_mcp.W013")
def check_versions() -> Iterator[CheckMessage]:
    """W013: an installed version is too old, or excluded."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:
        # The package is not installed, but used from a folder.
        return
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        # Those of the extra `dev` do not count.
        if found is None or "dev" in (found[3] or ""):
            continue
        name, wanted = found[1], found[2].strip()
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if not _is_right(version, wanted):
            yield Warning(
                f"{name} {version} is installed, which may have known security holes.",
                hint=f"Install {name} {wanted}.",
            )


@check(id="django_mcp.E012")
def check_other_distributions() -> Iterator[CheckMessage]:
    """E012: another distribution has installed a package `django_mcp` over this one."""
    owners = {
        each.metadata["Name"]
        for each in metadata.distributions()
        if "\ndjango_mcp/__init__.py," in "\n" + (each.read_text("RECORD") or "")
    }
    for name in sorted(owners - {DISTRIBUTION}):
        yield Error(
            f"{name} installs a package django_mcp too, and overwrites files of {DISTRIBUTION}.",
            hint=f"pip uninstall {name} {DISTRIBUTION}, then install {DISTRIBUTION} again.",
        )


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
