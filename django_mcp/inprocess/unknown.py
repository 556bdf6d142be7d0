"""What the developer of a call in process, or of a test, is told of an entry that is unknown to its user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.inprocess.results import MCPError, UnknownPrompt, UnknownResource, UnknownTool
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import Entry
from django_mcp.registry.problems import suggest
from django_mcp.registry.registry import Registry
from django_mcp.server.delivery.notify import find_matches
from django_mcp.server.exchange.caller import Caller


def explain_unknown(
    registry: Registry,
    error: MCPError,
    params: JSONObject,
    caller: Caller | None,
    how_to_sign_in: str,
) -> str | None:
    """Return why an entry is unknown, as a note of the exception; None: nothing is to be said.

    The message of the exception says no more than that it is unknown, since it may be shown to the user.

    Args:
        registry: of the server.
        error: was raised for a request with these params.
        caller: of the request; None: it never got that far.
        how_to_sign_in: a sentence for callers who are not signed in.
    """
    name, uri = params.get("name"), params.get("uri")
    if isinstance(error, UnknownResource):
        entries: list[Entry] = [entry for entry, _variables in find_matches(registry, str(uri))]
    elif isinstance(error, UnknownTool | UnknownPrompt):
        attribute = "tools" if isinstance(error, UnknownTool) else "prompts"
        known: Mapping[Any, Entry] = getattr(registry, attribute)
        if name not in known:
            if name in registry.registered[attribute]:
                return f"{name!r} is registered, but disabled in the admin."
            return suggest(name, known) if known else None
        entries = [known[name]]
    else:
        return None
    if caller is None:
        return None
    for entry in entries:
        why = caller.explain_hidden(entry, uri)
        if why is not None:
            is_signed_in = getattr(caller.principal, "is_authenticated", False)
            needs_sign_in = not is_signed_in and caller.visible.find_missing_rules(entry)
            return f"{why}. {how_to_sign_in}" if needs_sign_in else f"{why}."
    return None
