"""Links to the whole result of a tool from which rows were left out: the signed call, which a read makes again.

Nothing is stored. Who reads one needs the rights that the call needs at that time.
"""

from __future__ import annotations

import hashlib
from typing import cast

from django_mcp.protocol.content import ResourceLink, Text, TextContents
from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode, encode_sorted
from django_mcp.protocol.results import ReadResult, ToolResult
from django_mcp.registry.entries import ToolEntry
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.quotas import quota_key_of
from django_mcp.server.services import ServedCall

LINK_S = 600
"""How long a link lasts, in seconds."""

MAX_LINK_CHARS = 2048
"""Longer ones are not made: clients repeat them in a header."""

_SCHEME = "tool-result:"
_KIND = "whole result"
_MIME_TYPE = "application/json"


def is_whole(uri: str) -> bool:
    """Return whether a URI is one of a whole result."""
    return uri.startswith(_SCHEME)


def link_whole(call: ServedCall, result: ToolResult) -> ResourceLink | None:
    """Return a link to the whole result of a call; None: it could not be read.

    Args:
        call: of the tool.
        result: the whole one.
    """
    entry, server = call.entry, call.server
    if not (isinstance(entry, ToolEntry) and _is_linked(call, entry)):
        return None
    held = [
        _KIND,
        int(server.ports.clock()) + LINK_S,
        _owner(call),
        entry.name,
        call.params.get("arguments") or {},
    ]
    uri = _SCHEME + server.ports.signer.sign(encode(held))
    whole = to_contents(uri, result)
    if len(uri) > MAX_LINK_CHARS or len(encode(whole.to_wire())) > call.options.max_result_bytes:
        return None
    (contents,) = whole.contents
    return ResourceLink(
        uri,
        name=entry.name,
        description=f"The whole result, for {LINK_S // 60} minutes.",
        mime_type=_MIME_TYPE,
        size=len(cast("TextContents", contents).text.encode()),
    )


def find_whole(call: ServedCall, uri: str) -> tuple[ToolEntry, JSONObject] | None:
    """Return the tool and the arguments of the call that a link stands for; None: it is no link of this caller.

    Who sees the tool is checked, and nothing else.
    """
    server = call.server
    raw = (
        server.ports.signer.unsign(uri.removeprefix(_SCHEME))
        if len(uri) <= MAX_LINK_CHARS
        else None
    )
    if raw is None:
        return None
    try:
        held = decode(raw)
    except JSONDecodeError:
        return None
    # This signs other things too, such as states of calls.
    if type(held) is not list or held[:1] != [_KIND]:
        return None
    _kind, until_s, owner, name, arguments = held
    entry = server.registry.tools.get(name)
    if (
        owner != _owner(call)
        or until_s < server.ports.clock()
        or entry is None
        or not call.exchange.caller.visible.includes(entry)
        or not _is_linked(call, entry)
    ):
        return None
    return entry, arguments


def to_contents(uri: str, result: ToolResult) -> ReadResult:
    """Return a whole result as the contents of its URI."""
    text = "\n".join(block.text for block in result.content if isinstance(block, Text))
    return ReadResult([TextContents(uri, text, mime_type=_MIME_TYPE)])


def _is_linked(call: ServedCall, entry: ToolEntry) -> bool:
    """Return whether whole results of a tool can be read by the client of a call."""
    wrapping = call.derived.wrapping
    # An extension that wraps a tool decides about its calls.
    is_wrapped = wrapping is not None and entry.name in wrapping.by_tool
    return entry.has_whole_results and call.rules.links_resources and not is_wrapped


def _owner(call: ServedCall) -> str:
    """Return what is equal for all requests of one caller at one server, URL and tenant alone."""
    caller = call.exchange.caller
    variables = {name: str(value) for name, value in caller.url_kwargs.items()}
    # Not the quota, which all clients of a user share.
    who = quota_key_of(key_of(caller.principal), caller.address)
    about = [call.options.name, who, caller.tenant, variables]
    return hashlib.sha256(encode_sorted(about)).hexdigest()[:32]
