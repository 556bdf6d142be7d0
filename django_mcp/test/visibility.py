"""Assert what a user sees, by the lists and by requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django_mcp.inprocess.errors import MCPError
from django_mcp.inprocess.methods import LIST_KEYS, LISTS
from django_mcp.protocol.json import JSONObject

if TYPE_CHECKING:
    from django_mcp.test.conversation import Conversation

__all__ = ["assert_hidden", "assert_visible"]

_IDENTITIES = {
    "tools/list": "name",
    "resources/list": "uri",
    "resources/templates/list": "uriTemplate",
    "prompts/list": "name",
}
_MADE_UP = "-that-nobody-registered"


async def assert_hidden(conversation: Conversation, names: Iterable[str]) -> None:
    """Assert that each name is registered, in no list of the user, and unknown when used."""
    listed = await _listed(conversation)
    for name in names:
        ways = _methods_of(conversation, name)
        _require(ways, f"Nothing is registered as {name!r}: there is nothing to hide.")
        found = [method for method, seen in listed.items() if name in seen]
        _require(not found, f"{name!r} is in {' and '.join(found)}.")
        for method, key in ways:
            error = await _refusal(conversation, method, {key: name})
            expected = await _refusal(conversation, method, {key: name + _MADE_UP})
            unknown = None if expected is None else expected.replace(_MADE_UP, "")
            _require(error, f"{name!r} is in no list, but {method} works.")
            _require(error == unknown, f"{method} of {name!r} says {error}, not {unknown}.")


def _require(condition: object, text: str) -> None:
    if not condition:
        raise AssertionError(text)


async def assert_visible(conversation: Conversation, names: Iterable[str]) -> None:
    """Assert that each name is in a list of the user."""
    listed = await _listed(conversation)
    missing = [name for name in names if not any(name in seen for seen in listed.values())]
    known = sorted(name for seen in listed.values() for name in seen)
    _require(not missing, f"Not in the lists: {missing}. In them: {known}.")


async def _listed(conversation: Conversation) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    features = conversation.endpoint.server.derived.features
    for method in LIST_KEYS:
        params: JSONObject | None = {} if LISTS[method] & features else None
        seen = found[method] = set()
        while params is not None:
            page = await conversation.request(method, params)
            seen |= {entry[_IDENTITIES[method]] for entry in page[LIST_KEYS[method]]}
            params = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
    return found


def _methods_of(conversation: Conversation, name: str) -> list[tuple[str, str]]:
    """Return the methods that use an entry of this name, and the param that holds its name."""
    registry = conversation.endpoint.server.registry
    found = []
    if name in registry.tools:
        found.append(("tools/call", "name"))
    if name in registry.prompts:
        found.append(("prompts/get", "name"))
    templates = registry.templates.values()
    if name in registry.resources or any(each.match(name) is not None for each in templates):
        found.append(("resources/read", "uri"))
    elif name in registry.templates:
        raise AssertionError(f"{name!r} is a template: name a URI that it matches.")
    return found


async def _refusal(conversation: Conversation, method: str, params: JSONObject) -> str | None:
    """Return the error message without the name; None if there was no error."""
    try:
        await conversation.request(method, params)
    except MCPError as error:
        return f"{error.code} {error.message} {error.data} {error.status}"
    return None
