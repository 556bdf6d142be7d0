"""The tools, resources and prompts that are fuzzed: of each kind of argument and each way to answer, one."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from django_mcp import (
    Completion,
    InputRequired,
    McpHeader,
    ToolError,
    ask_form,
    ask_roots,
    ask_sampling,
)
from django_mcp.registry.decorators import Registration
from django_mcp.server.handlers.context import Context


class And(BaseModel):
    op: Literal["and"]
    parts: list[Expr]


class Or(BaseModel):
    op: Literal["or"]
    parts: list[Expr]


class Not(BaseModel):
    op: Literal["not"]
    part: Expr


class Eq(BaseModel):
    op: Literal["eq"]
    name: str
    value: str | int | float | bool | None


Expr = Annotated[And | Or | Not | Eq, Field(discriminator="op")]


class Node(BaseModel):
    label: str = ""
    kids: list[Node] = []


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(TypedDict, total=False):
    street: str
    number: int


@dataclass
class Row:
    id: int
    name: str
    price: Decimal = Decimal(0)
    tags: list[str] = field(default_factory=list)


Ctx = Context[Any]
NAME_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name"],
}
TREE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tree": {"$ref": "#/$defs/tree"},
        "code": {"type": "string", "pattern": "^(a+)+$", "maxLength": 40},
        "unique": {"type": "array", "uniqueItems": True, "items": {"type": ["object", "integer"]}},
        "either": {
            "oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "number", "minimum": 5}]
        },
    },
    "patternProperties": {"^x-": {"type": "string"}},
    "additionalProperties": False,
    "$defs": {
        "tree": {
            "anyOf": [
                {"type": "integer"},
                {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/tree"}},
            ]
        }
    },
}


def register(server: Registration) -> None:
    """Offer all of them on a server."""
    register_typed_tools(server)
    register_free_tools(server)
    register_asking_tools(server)
    register_tasks(server)
    register_resources(server)


def register_typed_tools(server: Registration) -> None:
    @server.tool
    async def search(expr: Expr, limit: int = 10) -> str:
        """Take a recursive union of models."""
        return f"{expr.op} {limit}"

    @server.tool
    def tree(root: Node) -> dict[str, Any]:
        """Take a recursive model, in a thread."""
        return {"kids": len(root.kids), "label": root.label}

    @server.tool
    async def moments(
        day: date,
        at: datetime | None = None,
        clock: time | None = None,
        took: timedelta | None = None,
    ) -> str:
        """Take dates and times."""
        return f"{day} {at} {clock} {took}"

    @server.tool
    async def money(amount: Decimal, share: float = 0.5, count: int = 1) -> dict[str, Any]:
        """Take numbers of each kind."""
        return {"amount": amount, "share": share, "count": count}

    @server.tool
    async def shapes(
        choice: Literal["a", "b", 3],
        colour: Colour = Colour.RED,
        ids: list[UUID] | None = None,
        table: dict[str, int] | None = None,
        either: int | str | list[int] | dict[str, float] = 0,
        place: Place | None = None,
        data: bytes = b"",
    ) -> str:
        """Take choices, ids, maps and unions."""
        return f"{choice} {colour.value} {len(ids or ())} {len(table or ())} {either} {place} {len(data)}"

    @server.tool
    async def rows(rows: list[Row]) -> list[Row]:
        """Take rows, and return them as structured content."""
        return rows[:10]


def register_free_tools(server: Registration) -> None:
    @server.tool
    async def region(
        region: Annotated[str, McpHeader("Region")],
        count: Annotated[int | None, McpHeader("Count")] = None,
    ) -> str:
        """Take arguments that headers repeat."""
        return f"{region} {count}"

    @server.tool(input_schema=TREE_SCHEMA)
    async def raw(arguments: dict[str, Any]) -> str:
        """Take what a hand-written schema allows."""
        return str(sorted(arguments))

    @server.tool
    async def anything(value: Any = None) -> Any:
        """Return what comes in."""
        return value

    @server.tool
    async def count(ctx: Ctx, to: int = 3, say: str = "at") -> str:
        """Send progress and log messages ahead of the answer."""
        for number in range(min(max(to, 0), 50)):
            await ctx.aprogress(number, to, say)
            await ctx.alog("warning", {"say": say, "number": number})
        return say

    @server.tool
    def fail(message: str = "no") -> str:
        """Fail as tools do."""
        raise ToolError(message)


def register_asking_tools(server: Registration) -> None:
    @server.tool
    def order(ctx: Ctx, item: str = "") -> str:
        """Ask twice, with work that is done once in between, in a thread."""
        first = ctx.elicit("Who?", NAME_FORM)
        number = ctx.once("number", lambda: 7)
        second = ctx.elicit("Sure?", {"type": "object", "properties": {"yes": {"type": "boolean"}}})
        return f"{item} {first.action} {number} {second.action}"

    @server.tool
    async def consult(ctx: Ctx, prompt: str = "Say something") -> str:
        """Ask the client's model, its roots, and its user by a page."""
        said = await ctx.asample(prompt, max_tokens=5)
        roots = await ctx.alist_roots()
        page = await ctx.aelicit_url("Pay", "https://pay.example/1")
        return f"{said.content} {len(roots)} {page.action}"

    @server.tool
    async def steer(ctx: Ctx) -> Any:
        """Ask three things at once."""
        if not ctx.is_resubmit:
            sampling = ask_sampling("x", max_tokens=5)
            asks = {"name": ask_form("Name?", NAME_FORM), "roots": ask_roots(), "said": sampling}
            return InputRequired(asks, state={"round": 1})
        return f"{sorted(ctx.input_responses)} {ctx.request_state}"


def register_tasks(server: Registration) -> None:
    @server.tool(task="allowed")
    async def job(ctx: Ctx, label: str = "") -> str:
        await ctx.aprogress(1, 2, label)
        return label

    @server.tool(task="required")
    def asking_job(ctx: Ctx, label: str = "") -> str:
        return f"{label} {ctx.elicit('Who?', NAME_FORM).action}"

    @server.tool(task="auto")
    async def failing_job(ctx: Ctx, label: str = "") -> str:
        raise ToolError(label)


def register_resources(server: Registration) -> None:
    @server.resource("text://plain")
    async def plain() -> str:
        return "plain text " * 20

    @server.resource("bytes://plain", mime_type="image/png")
    def binary() -> bytes:
        return bytes(range(256))

    @server.resource("file:///{+path}")
    async def file(path: str) -> str:
        return path

    @server.resource("number://{kind}/{number}{?page,tags*}")
    async def number(kind: str, number: int, page: int = 1, tags: list[str] | None = None) -> str:
        return f"{kind} {number} {page} {tags}"

    @server.prompt
    async def letter(ctx: Ctx, to: str, tone: str = "warm") -> str:
        return f"Write to {to}, {tone}"

    @server.prompt
    def interview(ctx: Ctx, about: str = "") -> str:
        return f"{about} {ctx.elicit('Who?', NAME_FORM).action}"

    @server.completion("letter", "tone")
    def complete_tone(value: str, arguments: dict[str, str]) -> Completion:
        return Completion.matching(value, ["warm", "cold", "wry"])
