from django.db import transaction

from django_mcp import (
    anotify_resource_updated,
    default_server,
    notify,
    notify_resource_updated,
    resource,
    tool,
)
from django_mcp.models import Stream, Worker


@resource("stock://{sku}")
def stock(sku: str) -> str:
    return sku


@tool(permission="django_mcp.view_apikey")
def guarded() -> str:
    return "seen"


@tool
def change(uri: str) -> int | None:
    """Tell of a change from a thread."""
    return notify_resource_updated(uri)


@tool
async def achange(uri: str) -> int | None:
    return await anotify_resource_updated(uri)


@tool
async def change_many(count: int) -> int:
    """Change resources one after the other, as fast as a handler can."""
    for number in range(count):
        await anotify_resource_updated(f"stock://{number}")
    return count


@tool
def change_many_from_a_thread(count: int) -> int:
    for number in range(count):
        notify_resource_updated(f"stock://{number}")
    return count


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
async def sessions() -> list[str]:
    return [each.key for each in await default_server.aconnected_sessions()]


@tool
async def ping(session: str) -> float | None:
    return await default_server.aping_client(session, timeout_s=8)


@tool
def sessions_from_a_thread() -> list[str]:
    return [each.key for each in default_server.connected_sessions()]


@tool
def ping_from_a_thread(session: str) -> float | None:
    return default_server.ping_client(session, timeout_s=8)


@tool
def end_from_a_thread(session: str) -> bool:
    return default_server.close_session(session)


@tool
async def end(session: str) -> bool:
    return await default_server.aclose_session(session)


@tool
async def close(stream: str) -> None:
    await default_server.aclose_stream(stream)


@tool
def rows() -> list[str]:
    """Name the streams that all processes have written down."""
    return [pk.hex for pk in Stream.objects.values_list("pk", flat=True)]


@tool
def forget(stream: str) -> None:
    """Delete the row of a stream, and tell nobody."""
    Stream.objects.filter(pk=stream).delete()


@tool
def forget_process(stream: str) -> int:
    """Delete the process that a stream is open in with all its rows, as if it had not been heard of."""
    return Worker.objects.filter(streams__id=stream).delete()[0]
