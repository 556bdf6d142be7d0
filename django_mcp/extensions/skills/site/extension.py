"""The extension of skills on a site, whose skills are registered."""

from __future__ import annotations

from collections.abc import Callable

from django_mcp.extensions.skills.core.extension import SkillsExtension


def on_site(_clock: Callable[[], float]) -> SkillsExtension:
    """Return the extension of a server of this site."""
    return SkillsExtension()
