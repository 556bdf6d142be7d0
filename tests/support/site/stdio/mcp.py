import asyncio
import ctypes
import logging
import os
import subprocess
import sys
import time

from django_mcp import Context, MCPServer, default_server, resource, tool

print("the tools are loaded")
if "STDIO_HOLD" in os.environ:
    print("still starting", flush=True)
    time.sleep(1000)


@tool
async def aecho(text: str) -> str:
    return text


@tool
def echo(text: str) -> str:
    return text


@tool
def noise() -> str:
    """Write to the output in every way there is."""
    print("printed")
    print("printed past sys.stdout", file=sys.__stdout__, flush=True)
    os.write(1, b"written to the descriptor\n")
    logging.getLogger("site").warning("logged")
    subprocess.run(["echo", "from a child"], check=True)
    library = ctypes.CDLL(None)
    library.puts(b"from C")
    library.fflush(None)
    return "quiet"


@tool
def read_input() -> str:
    """Read what is not there: the client's messages are not a handler's to read."""
    child = subprocess.run(["cat"], check=True, capture_output=True).stdout
    return repr((sys.stdin.read(), os.read(0, 10), child))


@tool
async def wait_for_ever() -> str:
    print("waiting")
    try:
        await asyncio.Event().wait()
    finally:
        print("no longer waiting")
    return "never"


@tool
def look_for_cancellation(ctx: Context) -> str:
    """Work until somebody cancels; a synchronous handler has to look."""
    print("working")
    while not ctx.is_cancelled:
        time.sleep(0.01)
    print("cancelled")
    return "never"


@tool
def never_look() -> str:
    """Hang, as a handler that waits for a dead machine does."""
    print("hanging")
    time.sleep(1000)
    return "never"


@tool
async def refuse_to_end() -> str:
    print("refusing")
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            print("refused")


@tool
def leave() -> str:
    """Do as a program does that has a usage error."""
    sys.exit("usage")


@tool
async def aleave() -> str:
    sys.exit("usage")


@tool
async def count(ctx: Context, to: int, pause_s: float = 0) -> str:
    for done in range(1, to + 1):
        await ctx.aprogress(done, total=to)
        await asyncio.sleep(pause_s)
    return "counted"


@tool
def confirm(ctx: Context) -> str:
    answer = ctx.elicit("Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
    return f"{answer.action} {answer.data}"


@tool
async def blob(size: int) -> str:
    print("made")
    return "x" * size


@tool
async def remember(ctx: Context, key: str) -> str:
    """Keep something in the session, and tell all that is in it."""
    await ctx.session.aset(key, True)
    return " ".join(sorted(await ctx.session.akeys()))


@tool
async def change(uri: str) -> str:
    """Say that a resource is another now."""
    await default_server.anotify_resource_updated(uri)
    return "told"


@tool
async def add_a_tool() -> str:
    default_server.register_tool(lambda: "new", name="new", description="New.")
    return "added"


@tool
def who(ctx: Context) -> str:
    return ctx.user.get_username() or "nobody"


@tool(permission="auth.view_user")
def staff_only() -> str:
    return "hello staff"


@resource("stock://{sku}")
def stock(sku: str) -> str:
    return sku


@resource("secret://{name}", permission="auth.view_user")
def secret(name: str) -> str:
    return name


second = MCPServer("second", public=True)


@second.tool
def only_here() -> str:
    return "second"
