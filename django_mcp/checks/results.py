"""The check of the recorded calls for results that take much of a model's context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, router, transaction

from django_mcp.calls.sizes import MAX_RESULT_TOKENS, NEWEST, find_largest
from django_mcp.models import CallRecord
from django_mcp.protocol.sanitize import clean
from django_mcp.registry.entries import FUNCTION, ToolEntry
from django_mcp.servers import all_servers

_OWN_HINT = (
    "Results of functions are never cut. Give the tool the arguments limit and cursor, return fewer fields, or let "
    "callers choose them."
)
_GENERATED_HINT = "Leave out fields, return shorter texts, or set MAX_RESULT_TOKENS, above which lists lose whole rows."


def check_results(databases: Sequence[str] | None = None, **_options: Any) -> list[CheckMessage]:
    """W036: A tool returned more than 25,000 tokens in one of the newest recorded calls."""
    alias = router.db_for_read(CallRecord)
    if alias not in (databases or ()):
        return []
    largest: dict[tuple[str, str], int] = {}
    # Before its table or its column is made.
    with suppress(DatabaseError), transaction.atomic(using=alias):
        largest = find_largest(alias, above=MAX_RESULT_TOKENS)
    messages: list[CheckMessage] = []
    with suppress(ImproperlyConfigured):  # E001 reports a setting that cannot be read
        for server in all_servers() if largest else ():
            for tool in server.registry.tools.values():
                tokens = largest.get((clean(server.name, 100), clean(tool.name, 200)))
                if tokens is not None and not _is_for_pages_only(tool):
                    message = (
                        f"A result of the tool {tool.name!r} of the server {server.name!r} had about {tokens:,} "
                        f"tokens, the largest in the newest {NEWEST:,} recorded calls."
                    )
                    hint = _OWN_HINT if tool.origin == FUNCTION else _GENERATED_HINT
                    messages.append(checks.Warning(message, hint=hint, id="django_mcp.W036"))
    return messages


def _is_for_pages_only(tool: ToolEntry) -> bool:
    """Return whether only the page of a tool calls it, so that no model reads its results."""
    about = (tool.meta or {}).get("ui")
    return isinstance(about, Mapping) and list(about.get("visibility") or ()) == ["app"]
