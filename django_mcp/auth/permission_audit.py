"""What is wrong in what entries ask of their users: permissions that nobody can have."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.apps import apps
from django.contrib.auth import get_permission_codename

if TYPE_CHECKING:
    from django_mcp.server.exchange.visibility import Requirements

__all__ = ["find_unknown_permissions", "known_permissions"]

_NAME = re.compile(r"[A-Za-z_]\w*\.[^\s.][^\s]*")


def find_unknown_permissions(requirements: Requirements) -> Iterator[tuple[str, str, str | None]]:
    """Yield the source of an entry, a permission it needs that there is not, and the nearest one."""
    known = known_permissions()
    for guarded, rules in requirements.rules.items():
        for rule in sorted(rule for rule in rules if isinstance(rule, str)):
            if rule not in known or not _NAME.fullmatch(rule):
                near = difflib.get_close_matches(rule, known, n=1, cutoff=0.5)
                yield guarded.source, rule, near[0] if near else None


def known_permissions() -> set[str]:
    """Return the permissions that the models of the installed apps bring, as `app.codename`."""
    found: set[str] = set()
    for model in apps.get_models():
        options = model._meta
        codenames = [get_permission_codename(each, options) for each in options.default_permissions]
        codenames += [codename for codename, _ in options.permissions]
        found.update(f"{options.app_label}.{codename}" for codename in codenames)
    return found
