"""Skills: folders with instructions for whole tasks, which hosts list, verify and load.

`core` is without Django, `site` finds the folders of a site, `admin` has what the catalogue says of skills, `checks`
the system checks, and `testing` what the test client does with skills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.extensions.skills.site.generated import skill

__all__ = ["skill"]


def __getattr__(name: str) -> Any:
    """Return a public name; `core` is imported without Django."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from django_mcp.extensions.skills.site import generated

    return getattr(generated, name)
