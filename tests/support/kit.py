"""A server for tests of the test kit."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import count
from typing import Any

from django.http import HttpRequest

from django_mcp import Context, InputRequired, MCPServer, ToolError, ask_form
from example_project.shop.models import Product
from tests.support.databases import make_product

RUNS: list[str] = []


@dataclass
class Wish:
    colour: str
    count: int = 1


def is_staff(user: Any) -> bool:
    return bool(getattr(user, "is_staff", False))


_numbers = count()


def make_server(**options: Any) -> MCPServer:
    options = {"public": True, "instructions": "Be kind.", "page_size": 3, **options}
    # Those of a module live as long as the tests do, and no two of a site share a name.
    server = MCPServer(f"kit-{next(_numbers)}", **options)
    _add_plain(server)
    _add_asking(server)
    _add_rest(server)
    return server


def _add_plain(server: MCPServer) -> None:
    @server.tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    @server.tool
    async def who(ctx: Context) -> str:
        """Tell who calls, and in what place."""
        return f"{ctx.user.get_username() or 'nobody'} {ctx.url_kwargs.get('tenant', '-')}"

    @server.tool
    def where(request: HttpRequest) -> str:
        """Tell the URL."""
        return request.build_absolute_uri()

    @server.tool
    def thread() -> str:
        """Tell where it runs."""
        return threading.current_thread().name

    @server.tool(atomic=True)
    def count(add_one: bool = False, fails: bool = False) -> int:
        """Count the products."""
        if add_one:
            make_product("one", "default")
        if fails:
            raise ToolError("No.")
        return Product.objects.count()

    @server.tool
    def work(ctx: Context) -> str:
        """Tell how far it is."""
        ctx.progress(1, 2, "half")
        ctx.info({"at": 1}, logger="work")
        return "done"

    @server.tool(permission=is_staff)
    def staff_report() -> str:
        """Report to the staff."""
        return "secret"


def _add_asking(server: MCPServer) -> None:
    @server.tool
    def wish(ctx: Context) -> str:
        """Ask for two things."""
        RUNS.append("wish")
        first = ctx.elicit("Which?", Wish)
        if not first.is_accepted:
            return first.action
        second = ctx.elicit("Sure?", {"type": "object"}, key="sure")
        return f"{first.data.colour} {first.data.count} {second.action}"

    @server.tool
    def fickle(ctx: Context) -> str:
        """Ask something else each time."""
        RUNS.append("fickle")
        return ctx.elicit(f"Number {len(RUNS)}?", {"type": "object"}).action

    @server.tool
    def hasty(ctx: Context) -> Any:
        """Take any second call for an answer."""
        if not ctx.is_resubmit:
            return InputRequired({"more": ask_form("More?", {"type": "object"})})
        return "went on"


def _add_rest(server: MCPServer) -> None:
    @server.resource("kit://staff-list", permission=is_staff)
    def staff_list() -> str:
        return "names"

    @server.resource("kit://{n}/page")
    def page(n: int) -> str:
        return f"page {n}"

    @server.resource("kit-staff://{n}", permission=is_staff)
    def staff_page(n: int) -> str:
        return f"page {n}"

    @server.prompt
    def letter(to: str, tone: str = "warm") -> str:
        """Write a letter."""
        return f"Write a {tone} letter to {to}"

    @server.completion(letter, "tone")
    def complete_tone(value: str, arguments: dict[str, str]) -> list[str]:
        return [tone for tone in ("warm", arguments.get("to", "cold")) if tone.startswith(value)]
