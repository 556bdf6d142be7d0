"""The methods that clients may call, with a module for each chapter of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from django_mcp.protocol.errors import Refusal
from django_mcp.server.methods import (
    discovery,
    prompts,
    resources,
    subscriptions,
    tools,
)
from django_mcp.server.services import ServedCall

Method: TypeAlias = Callable[[ServedCall], Awaitable[bytes | Refusal]]
"""Returns the encoded result of an admitted request, or a refusal."""

METHODS: Mapping[str, Method] = {
    "initialize": discovery.initialize,
    "ping": discovery.ping,
    "server/discover": discovery.discover,
    "tools/list": discovery.list_entries,
    "tools/call": tools.call,
    "resources/list": discovery.list_entries,
    "resources/templates/list": discovery.list_entries,
    "resources/read": resources.read,
    "resources/subscribe": subscriptions.subscribe,
    "resources/unsubscribe": subscriptions.unsubscribe,
    "subscriptions/listen": subscriptions.listen,
    "prompts/list": discovery.list_entries,
    "prompts/get": prompts.get,
    "completion/complete": prompts.complete,
    "logging/setLevel": discovery.set_level,
}
