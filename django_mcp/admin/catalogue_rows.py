"""What the catalogue says of each entry besides its own texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from django_mcp.admin.charts import find_summary
from django_mcp.admin.lookup import KINDS
from django_mcp.protocol.tasks import NEVER
from django_mcp.registry.entries import PromptEntry, TemplateEntry

if TYPE_CHECKING:
    from django_mcp.registry.entries import Entry
    from django_mcp.servers import MCPServer


def is_found(term: str, *texts: Any) -> bool:
    """Return whether what somebody searches for is in one of these texts."""
    return not term or any(term.casefold() in str(text or "").casefold() for text in texts)


def find_badges(entry: Entry) -> list[Any]:
    """Return what an entry says of itself: what it does to data, and how it runs and is shown."""
    hints = getattr(entry, "annotations", None)
    hints = hints if isinstance(hints, dict) else {}
    is_read_only = hints.get("readOnlyHint") is True
    badges = {
        _("read-only"): is_read_only,
        # Clients take a tool that says nothing for one that may destroy.
        _("destructive"): not is_read_only and hints.get("destructiveHint") is True,
        _("task"): getattr(entry, "task", NEVER) != NEVER,
        _("app"): "ui" in (entry.meta or {}),
    }
    return [badge for badge, is_so in badges.items() if is_so]


HEIGHT = 20
"""Of a sparkline; each of its points is 1 wide."""


def find_completers(server: MCPServer, entry: Entry) -> list[str]:
    """Return the names of the arguments or variables that the server proposes values for."""
    if not isinstance(entry, PromptEntry | TemplateEntry):
        return []
    return [name for name in entry.argument_names if server.registry.completer(entry, name)]


def calls_of_the_day(server_name: str) -> dict[tuple[str, str], Any]:
    """Return the numbers of the day for each entry that was called, by kind and name.

    `line` has the points of the SVG polyline of its calls.
    """
    return {
        (kind, row["name"]): {**row, "line": _draw(row["points"])}
        for row in find_summary("day")["names"]
        if row["server"] == server_name and row["name"]
        for kind in KINDS.get(row["method"], ())
    }


def _draw(points: list[int]) -> str:
    most = max(points)
    return " ".join(
        f"{at},{HEIGHT - 1 - round((HEIGHT - 2) * count / most)}" for at, count in enumerate(points)
    )
