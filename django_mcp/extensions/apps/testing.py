"""Read the page of a tool in a test, and check it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any, cast

from django_mcp.extensions.apps.core.app import EXTENSION, HTML_KEY, MIME_TYPE, Shown, shown_of
from django_mcp.extensions.apps.core.extension import AppsExtension
from django_mcp.extensions.apps.site.called import find_unknown_arguments
from django_mcp.extensions.apps.site.examine import Examined, examine, find_duplicates
from django_mcp.extensions.apps.site.references import find_lost
from django_mcp.inprocess.results import CallResult, MCPError
from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.test.conversation import BaseClient


async def read_app(client: BaseClient, tool: str) -> str:
    """Return the page of a tool; see `MCPClient.app`."""
    shown = _find_shown(client, tool)
    if shown.app is None or shown.app.template is None:
        raise MCPError(f"Tool {tool} has no page: register it with app=.")
    extension = cast("AppsExtension", client.server.engine.extensions[EXTENSION])
    uri = extension.uri_of(shown.app.template)
    page: str = (await client._request("resources/read", {"uri": uri}))["contents"][0]["text"]
    return page


async def assert_app(client: BaseClient, tool: str, arguments: Mapping[str, Any]) -> None:
    """Raise `AssertionError` unless hosts can show the page of a tool; see `MCPClient.assert_app`."""
    app = _find_shown(client, tool).app
    origins = app.csp.origins if app and app.csp is not None else ()
    examined = examine(await read_app(client, tool), origins)
    problems = list(_tell_problems(examined))
    params: JSONObject = {"name": tool, "arguments": dict(arguments)}
    has_parts = client._revision.is_stateless
    if has_parts:
        extensions = {EXTENSION: {"mimeTypes": [MIME_TYPE]}}
        params["_meta"] = {
            keys.CLIENT_CAPABILITIES: {**client._capabilities, "extensions": extensions}
        }
    result = CallResult(raw=await client._request("tools/call", params))
    if result.is_error:
        problems.append(f"a call fails: {result.text}")
    elif not result.text:
        problems.append("a result has no text, which other clients need")
    elif has_parts and app and app.fragment is not None and HTML_KEY not in result.meta:
        problems.append(f"a result has no part of the page from {app.fragment}")
    part = examine(result.meta.get(HTML_KEY, ""), origins, is_part=True)
    problems += [f"the part of a result: {problem}" for problem in _tell_problems(part)]
    problems += find_duplicates(Counter([*examined.ids, *part.ids]))
    problems += [
        f"it calls {called} with {name!r:.80}, which is no argument of it"
        for called, name in find_unknown_arguments(
            [*examined.calls, *part.calls],
            examined.inputs | part.inputs,
            client.server.registry.registered["tools"],
        )
    ]
    own = {name for name in (app.template, app.fragment) if name} if app else set()
    problems += [
        f"{lost.template} has {lost.reference:.120}, and {lost.problem}"
        for lost in find_lost(client.server.registry.registered["tools"])
        if lost.template in own
    ]
    assert not problems, f"The page of {tool}: " + "; ".join(problems)  # noqa: S101 - for tests


def _tell_problems(examined: Examined) -> Iterator[str]:
    yield from (f"it loads {address}, which hosts refuse" for address in examined.loaded)
    yield from examined.problems


def find_confirmed(result: CallResult) -> JSONObject:
    """Return the params of the call that the button of a page makes; see `MCPClient.confirm`."""
    reader = _QuestionReader()
    reader.feed(str(result.meta.get(HTML_KEY, "")))
    if reader.params is None:
        raise MCPError(
            "The result has no question to confirm on a page. Give the client the capabilities of a host with MCP Apps."
        )
    return reader.params


class _QuestionReader(HTMLParser):
    """Reads the call of the button that answers a question with yes."""

    params: JSONObject | None = None
    _is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._is_inside |= "data-mcp-question" in given
        if self._is_inside and self.params is None and "data-mcp-call" in given:
            arguments = decode(given.get("data-mcp-args") or "{}")
            self.params = {"name": given["data-mcp-call"], "arguments": arguments}


def _find_shown(client: BaseClient, tool: str) -> Shown:
    entry = client.server.registry.tools.get(tool)
    if entry is None:
        raise MCPError(f"The server {client.server.name} has no tool {tool}.")
    return shown_of(entry)
