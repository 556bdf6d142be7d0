from django.db import transaction

from django_mcp import (
    anotify_resource_updated,
    default_server,
    notify,
    notify_resource_updated,
    resource,
    tool,
)


@resource("stock://{sku}")
def stock(sku: str) -> str:
    return sku


@tool
def change(uri: str) -> int | None:
    """Tell of a change from a thread."""
    return notify_resource_updated(uri)


@tool
async def achange(uri: str) -> int | None:
    return await anotify_resource_updated(uri)


@tool
def change_and_fail(uri: str) -> None:
    """Tell of a change in a transaction that is rolled back."""
    with transaction.atomic():
        assert notify_resource_updated(uri) is None
        raise ValueError("no")


@tool
def shout(text: str) -> int | None:
    return notify("notifications/shouted", {"text": text})


@tool
async def add_tool(name: str) -> str:
    default_server.register_tool(lambda: name, name=name)
    return name


@tool
async def streams() -> int:
    return len(default_server.open_streams())
