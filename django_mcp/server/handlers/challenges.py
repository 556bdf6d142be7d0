"""A token's missing scopes in the form of a tool's result, for clients that look for a challenge there.

ChatGPT asks its user to sign in, or to allow more, only if the result of a tool says so. All others
react to the status 401 or 403. What is refused is the same.
"""

from __future__ import annotations

from django_mcp.protocol.content import Text
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.results import ToolResult
from django_mcp.server.exchange.call import Failure, FailureKind
from django_mcp.server.services import ServedCall

META_KEY = "mcp/www_authenticate"
"""The key in `_meta` of a result that holds its challenges, each as in the header `WWW-Authenticate`."""

_NAMES = ("openai-mcp", "chatgpt")
"""How ChatGPT begins the name in its `clientInfo` and its `User-Agent`."""


def to_result(call: ServedCall, refusal: Refusal) -> bytes | Refusal:
    """Return the refusal of a tool in the form that its client reacts to; see `AUTH_CHALLENGE`."""
    challenges = [
        value.decode("latin-1") for name, value in refusal.headers if name == b"www-authenticate"
    ]
    if not challenges or not _takes_results(call):
        return refusal
    call.failure = Failure(kind=FailureKind.DENIED, message=refusal.message)
    result = ToolResult(content=[Text(refusal.message)], is_error=True, meta={META_KEY: challenges})
    return call.server.encode_result(result.to_wire(), call.rules)


def _takes_results(call: ServedCall) -> bool:
    form = call.options.auth_challenge
    return form == "tool_result" or (form == "auto" and _is_chatgpt(call))


def _is_chatgpt(call: ServedCall) -> bool:
    headers, client_info = call.exchange.headers, call.connection.client_info or {}
    agent = None if headers is None else headers.get("user-agent")
    return any(
        isinstance(name, str) and name.lower().startswith(_NAMES)
        for name in (client_info.get("name"), agent)
    )
