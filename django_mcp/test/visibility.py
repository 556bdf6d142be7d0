"""Assert what a user sees, and that results conform to the types that the authors of the protocol publish."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from django.core.exceptions import ImproperlyConfigured

from django_mcp.inprocess.methods import read_pages
from django_mcp.inprocess.results import MCPError
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.entries import KINDS
from django_mcp.server.delivery.notify import find_matches
from django_mcp.server.setting import LIST_METHODS
from django_mcp.test.conversation import BaseClient

_IDENTITIES = {kind.key: kind.identity for kind in KINDS}
_MADE_UP = "-that-nobody-registered"


async def assert_hidden(client: BaseClient, names: Iterable[str]) -> None:
    """Assert that each name is registered, in no list of the user, and unknown when used."""
    listed = await _listed(client)
    for name in names:
        ways = _methods_of(client, name)
        _require(ways, f"Nothing is registered as {name!r}: there is nothing to hide.")
        showing = [method for method, seen in listed.items() if name in seen]
        _require(not showing, f"{name!r} is in {' and '.join(showing)}.")
        for method, key in ways:
            error = await _refusal(client, method, {key: name})
            expected = await _refusal(client, method, {key: name + _MADE_UP})
            unknown = None if expected is None else expected.replace(_MADE_UP, "")
            _require(error, f"{name!r} is in no list, but {method} works.")
            _require(error == unknown, f"{method} of {name!r} says {error}, not {unknown}.")


def _require(condition: object, text: str) -> None:
    if not condition:
        raise AssertionError(text)


async def assert_visible(client: BaseClient, names: Iterable[str]) -> None:
    """Assert that each name is in a list of the user."""
    listed = await _listed(client)
    missing = [name for name in names if not any(name in seen for seen in listed.values())]
    known = sorted(name for seen in listed.values() for name in seen)
    templates = client.server.registry.templates
    hints = [
        f" {name!r} is a URI of the template {template!r}: name the template."
        for name in missing
        for template, entry in templates.items()
        if entry.template.match(name) is not None
    ]
    _require(not missing, f"Not in the lists: {missing}. In them: {known}.{''.join(hints)}")


async def _listed(client: BaseClient) -> dict[str, set[str]]:
    names_listed: dict[str, set[str]] = {}
    features = client.server.engine.derived.features
    for method, key in LIST_METHODS.items():
        is_there = method.partition("/")[0] in features
        request = partial(client._request, method)
        entries = await read_pages(method, request) if is_there else []
        names_listed[method] = {entry[_IDENTITIES[key]] for entry in entries}
    return names_listed


def _methods_of(client: BaseClient, name: str) -> list[tuple[str, str]]:
    """Return the methods that use an entry of this name, and the param that holds its name."""
    registry = client.server.registry
    methods = []
    if name in registry.tools:
        methods.append(("tools/call", "name"))
    if name in registry.prompts:
        methods.append(("prompts/get", "name"))
    if any(find_matches(registry, name)):
        methods.append(("resources/read", "uri"))
    elif name in registry.templates:
        raise AssertionError(f"{name!r} is a template: name a URI that it matches.")
    return methods


async def _refusal(client: BaseClient, method: str, params: JSONObject) -> str | None:
    """Return the error without the name that it suggests; None if there was no error."""
    try:
        await client._request(method, params)
    except MCPError as error:
        message = error.message.partition(". Did you mean ")[0]
        return f"{error.code} {message} {error.data} {error.status}"
    return None


async def assert_conforming(client: BaseClient) -> None:
    """Assert that the lists, and all results of a client so far, conform to its revision.

    Raises:
        AssertionError: one does not; the text says which and where.
        ImproperlyConfigured: the package is not installed.
    """
    await _listed(client)
    try:
        from mcp_types.methods import validate_server_result
    except ImportError as error:
        raise ImproperlyConfigured(
            "assert_conforms needs the published types: pip install 'mcp-types>=2.3'"
        ) from error
    from pydantic import ValidationError

    for method, result in client._results:
        try:
            validate_server_result(method, client.revision, result)
        except KeyError:
            # Of an extension, for example, which the types do not have.
            continue
        except ValidationError as error:
            raise AssertionError(
                f"The answer to {method} is not what {client.revision} says:\n{error}"
            ) from error
