"""System checks of notifications between processes."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Info, register
from django.core.exceptions import ImproperlyConfigured

from django_mcp.conf import settings
from django_mcp.push.bus_choice import choose_bus, has_shared_layer

__all__: list[str] = []


@register("django_mcp")
def check_layer(**_kwargs: Any) -> list[CheckMessage]:
    """W009: the channel layer of `PUSH_BUS` does not reach other processes."""
    try:
        is_lost = settings.PUSH_BUS == "layer" and not has_shared_layer()
    except ImproperlyConfigured:
        return []
    if not is_lost:
        return []
    return [
        checks.Warning(
            "DJANGO_MCP['PUSH_BUS'] is 'layer', but the channel layer is in memory, where no other "
            "process receives it.",
            hint="Set CHANNEL_LAYERS to channels_redis.pubsub.RedisPubSubChannelLayer, or PUSH_BUS "
            "to 'auto'.",
            id="django_mcp.W009",
        )
    ]


@register("django_mcp", deploy=True)
def check_bus(**_kwargs: Any) -> list[CheckMessage]:
    """I005: the cost, or lack, of notifications between processes."""
    try:
        kind = choose_bus()
    except ImproperlyConfigured:
        return []
    if kind == "layer":
        return []
    if kind == "database":
        message = (
            "Several worker processes notify each other by polling the database once a second, "
            "while they have streams open."
        )
    else:
        message = (
            "Changes are told to clients of the process they happen in, and to no others: one "
            "worker process is all that can be run."
        )
    return [
        Info(
            message,
            hint="Set CHANNEL_LAYERS to channels_redis.pubsub.RedisPubSubChannelLayer if you run "
            "more than one.",
            id="django_mcp.I005",
        )
    ]
