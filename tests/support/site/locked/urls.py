import time
from pathlib import Path

from django.contrib.auth.models import Group
from django.urls import include, path

from django_mcp import Context, default_server

LIMIT_S = 120.0


def write_until(ctx: Context, name: str, go: str) -> None:
    """Write a row, and have SQLite's write lock until a file is there."""
    Group.objects.create(name=name)
    Path(f"{go}.held").touch()
    until_s, count = time.monotonic() + LIMIT_S, 0
    while not Path(go).exists():
        assert time.monotonic() < until_s
        count += 1
        ctx.progress(count, message=f"step {count}")
        time.sleep(0.2)


@default_server.tool
def hold(ctx: Context, name: str, go: str) -> str:
    write_until(ctx, name, go)
    return "held"


@default_server.tool(task="required")
def hold_as_task(ctx: Context, name: str, go: str) -> str:
    write_until(ctx, name, go)
    return "held"


@default_server.tool(task="auto")
def hold_perhaps_as_task(ctx: Context, name: str, go: str) -> str:
    write_until(ctx, name, go)
    return "held"


@default_server.tool
def ping(ctx: Context, name: str) -> str:
    """Write, and ask the client meanwhile whether it is there."""
    Group.objects.create(name=name)
    return "no" if ctx.ping_client() is None else "yes"


@default_server.tool
def write(name: str) -> str:
    Group.objects.create(name=name)
    return name


@default_server.tool(atomic=False)
def remember(ctx: Context, value: str) -> str:
    ctx.session["value"] = value
    return value


@default_server.tool(read_only=True)
def recall(ctx: Context) -> str:
    return str(ctx.session.get("value"))


@default_server.tool(read_only=True)
def names() -> list[str]:
    return list(Group.objects.order_by("name").values_list("name", flat=True))


urlpatterns = [path("", include("django_mcp.urls"))]
