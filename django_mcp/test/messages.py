"""The messages and headers of a client of each revision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.protocol import headers as names
from django_mcp.protocol import meta as keys
from django_mcp.protocol.headers import encode_value
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.revisions import Revision

if TYPE_CHECKING:
    from django_mcp.registry.entries import ToolEntry

CLIENT_INFO: JSONObject = {"name": "django-mcp-test-client", "version": "1"}

LISTENS_TO = "debug"
"""The lowest level of the log messages that the client asks for."""


def with_meta(params: JSONObject, revision: Revision, capabilities: JSONObject) -> JSONObject:
    """Return params with the `_meta` that the revision requires, and a progress token."""
    meta: JSONObject = {keys.PROGRESS_TOKEN: "progress"}
    if revision.is_stateless:
        meta |= {
            keys.PROTOCOL_VERSION: revision.name,
            keys.CLIENT_INFO: CLIENT_INFO,
            keys.CLIENT_CAPABILITIES: capabilities,
            keys.LOG_LEVEL: LISTENS_TO,
        }
    return {**params, "_meta": {**meta, **params.get("_meta", {})}}


def base_headers(revision: Revision, *, session_id: str | None, is_settled: bool) -> dict[str, str]:
    """Return the headers of every request; `is_settled`: after the handshake, if there is one."""
    found = {
        "Host": "testserver",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    if is_settled:
        found[names.PROTOCOL_VERSION] = revision.name
    if session_id is not None:
        found[names.SESSION_ID] = session_id
    return found


def mirroring_headers(
    message: JSONObject, revision: Revision, tools: Mapping[str, ToolEntry]
) -> dict[str, str]:
    """Return the headers that repeat a message, if the revision has them."""
    method, params = message.get("method"), message.get("params", {})
    if method is None or not revision.mirrors_headers:
        return {}
    found = {names.METHOD: method}
    rule = revision.methods.get(method)
    mirrored = params.get(rule.mirrored_param) if rule and rule.mirrored_param else None
    if isinstance(mirrored, str):
        found[names.NAME] = encode_value(mirrored)
    tool = tools.get(params.get("name", "")) if method == "tools/call" else None
    for param in () if tool is None else tool.header_params:
        value = _find(param.path, params.get("arguments"))
        if isinstance(value, str | int | bool):
            found[param.header] = encode_value(value)
    return found


def _find(path: tuple[str, ...], arguments: Any) -> Any:
    for key in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    return arguments
