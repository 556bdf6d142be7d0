"""The methods a client may call, one module per chapter of the protocol; `METHODS` names them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from django_mcp.protocol.errors import Refusal
from django_mcp.server.methods import (
    completion,
    lifecycle,
    lists,
    logs,
    prompts,
    resources,
    subscriptions,
    tasks,
    tools,
)

if TYPE_CHECKING:
    from django_mcp.server.handlers.context import Context

Method: TypeAlias = "Callable[[Context[Any]], Awaitable[bytes | Refusal]]"
"""Answers one admitted request: the encoded result, or the refusal to send."""

METHODS: Mapping[str, Method] = {
    "initialize": lifecycle.initialize,
    "ping": lifecycle.ping,
    "server/discover": lifecycle.discover,
    "tools/list": lists.list_tools,
    "tools/call": tools.call,
    "resources/list": lists.list_resources,
    "resources/templates/list": lists.list_templates,
    "resources/read": resources.read,
    "resources/subscribe": subscriptions.subscribe,
    "resources/unsubscribe": subscriptions.unsubscribe,
    "subscriptions/listen": subscriptions.listen,
    "prompts/list": lists.list_prompts,
    "prompts/get": prompts.get,
    "completion/complete": completion.complete,
    "logging/setLevel": logs.set_level,
    "tasks/get": tasks.get,
    "tasks/list": tasks.list_tasks,
    "tasks/result": tasks.result,
    "tasks/update": tasks.update,
    "tasks/cancel": tasks.cancel,
}
