"""The tools that are measured, padded to BENCH_TOOLS tools in all, and a resource to listen to."""

import os
from collections.abc import Callable

from django_mcp import Context, default_server, resource, tool
from tests.benchmarks.models import Item

MEASURED = 7


@tool(atomic=False)
def echo(text: str) -> str:
    """Give the text back."""
    return text


@tool
async def aecho(text: str) -> str:
    """Give the text back, from an async function."""
    return text


@tool
async def progress(ctx: Context, count: int) -> str:
    """Report progress so many times."""
    for done in range(1, count + 1):
        await ctx.aprogress(done, total=count)
    return "done"


@tool
async def notify(uri: str) -> str:
    """Tell all who subscribed to a resource that it has changed."""
    await default_server.anotify_resource_updated(uri)
    return "done"


@resource("bench://{name}")
def read(name: str) -> str:
    """Give the name back."""
    return name


@tool(atomic=False)
def length(text: str) -> str:
    """Say how long the text is."""
    return str(len(text))


@tool(atomic=False)
def blob(size: int) -> str:
    """Give a text of that size."""
    return "x" * size


@tool(read_only=True)
def db_get() -> str:
    """Make one ORM query."""
    return Item.objects.get(pk=1).name


def filler(number: int) -> Callable[..., str]:
    def fill(name: str, limit: int = 10, tags: list[str] | None = None, active: bool = True) -> str:
        return name

    description = f"A tool that only fills the list, number {number}."
    return tool(name=f"filler_{number}", description=description, atomic=False)(fill)


for _number in range(int(os.environ.get("BENCH_TOOLS", "0")) - MEASURED):
    filler(_number)
