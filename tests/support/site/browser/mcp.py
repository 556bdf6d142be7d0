"""Tools to be tried in a browser; what they say of themselves and return is hostile here and there."""

import base64
from asyncio import Event
from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from django_mcp import (
    Completion,
    Context,
    Image,
    ToolResult,
    completion,
    default_server,
    prompt,
    resource,
    tool,
)
from tests.support.site.browser.hostile import SCRIPT

BIDI = "abc\u202etxt.exe\u202c"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGNQSFgARAwQCgAdjgSBQe+XXgAAAABJRU5ErkJggg=="
)


@tool(read_only=True)
def greet(name: str, times: Annotated[int, Field(ge=1, le=5)] = 1, loud: bool = False) -> str:
    """Greet somebody."""
    text = " ".join([f"Hello, {name}!"] * times)
    return text.upper() if loud else text


@tool(destructive=False)
async def order_shirt(ctx: Context, color: Literal["red", "green"]) -> str:
    """Order a shirt; asks for the size."""
    answer = await ctx.aelicit(
        "Which size?",
        {
            "type": "object",
            "properties": {"size": {"type": "string", "enum": ["S", "M", "L"], "title": "Size"}},
            "required": ["size"],
        },
    )
    if answer.content is None:
        return "No shirt"
    return f"A {color} shirt in {answer.content['size']}"


@tool(destructive=False)
async def climb(ctx: Context, steps: int) -> dict[str, int]:
    """Climb, telling how far it is."""
    for step in range(steps):
        await ctx.aprogress(step + 1, steps, message=f"step {step + 1}")
    return {"steps": steps}


@tool(read_only=True)
def picture() -> ToolResult:
    """Return an image, and one that is none."""
    fake = Image(SCRIPT.encode(), mime_type="image/png")
    return ToolResult(content=[Image(PNG, mime_type="image/png"), fake])


@tool(read_only=True)
def measure(
    size: int | None, unit: str | None, number: int, marks: dict[str, int] | None = None
) -> str:
    """Tell what was given."""
    return repr((size, unit, number, marks))


@tool(read_only=True)
def dress(
    size: Literal["S", "M"] = "M",
    warm: bool = True,
    mark: Literal["abc\u202etxt.exe\u202c", "none"] = "none",
    text: str = BIDI,
) -> str:
    """Tell what is worn."""
    return repr((size, warm))


@tool(destructive=False)
async def order_socks(ctx: Context) -> str:
    """Order socks; asks how many."""
    answer = await ctx.aelicit(
        "How many?",
        {
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "size": {"type": "string", "enum": ["S", "M"], "default": "M"},
            },
            "required": ["count", "size"],
        },
    )
    return repr(answer.content)


class Place(BaseModel):
    city: Annotated[str, Field(min_length=2)]
    code: Annotated[str, Field(pattern=r"^\d{5}$", description="The postal code.")]


class Seat(BaseModel):
    row: Annotated[int, Field(ge=1, le=30)]
    price: Decimal
    guests: list[str] = []


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class Invoice(BaseModel):
    kind: Literal["invoice"]
    days: Annotated[int, Field(le=30)]


@tool(read_only=True, record_arguments=True)
def book_trip(
    place: Place,
    seats: Annotated[list[Seat], Field(min_length=1, max_length=3)],
    day: date,
    extras: list[Literal["meal", "bike"]] | None = None,
    payment: Annotated[Card | Invoice, Field(discriminator="kind")] | None = None,
    home: Place | None = None,
) -> list[str]:
    """Book seats."""
    return [repr(each) for each in (place, *seats, day, extras, payment, home)]


@tool(read_only=True)
def meet(
    day: date, at: time, starts: datetime, price: Decimal, ends: datetime | None = None
) -> str:
    """Tell when, in Python."""
    return repr((day, at, starts.isoformat(), price, ends))


@tool(read_only=True)
def label(labels: list[str] = ["new"]) -> str:  # noqa: B006 (nothing changes it)
    """Tell which labels there are."""
    return repr(labels)


@tool(destructive=False)
async def wait(ctx: Context) -> str:
    """Never end."""
    await ctx.aprogress(3, 10)
    await Event().wait()
    return ""


@tool(destructive=False)
async def pick_number(ctx: Context) -> str:
    """Ask for an even number, of three fields."""
    answer = await ctx.aelicit(
        "Which number?",
        {
            "type": "object",
            "properties": {
                "number": {"type": "integer", "maximum": 10},
                "why": {"type": "string"},
                "by": {"type": "string", "format": "date"},
            },
            "required": ["number", "why"],
        },
    )
    return repr(answer.content)


@tool(destructive=False)
async def visit(ctx: Context) -> str:
    """Send the user to a page with a very long address."""
    answer = await ctx.aelicit_url("Please look at this.", "https://example.com/?" + "x" * 1500)
    return answer.action


@tool(destructive=True)
def erase(name: str, everywhere: bool, count: int) -> str:
    """Erase something."""
    return repr((name, everywhere, count))


@tool(task="required", destructive=False)
async def export_all(ctx: Context) -> dict[str, int]:
    """Export, as a task that asks."""
    answer = await ctx.aelicit(
        "How many?", {"type": "object", "properties": {"rows": {"type": "integer"}}}
    )
    return {"exported": (answer.content or {}).get("rows", 0)}


@resource("room://{building}/{room}{?floor}")
def room(building: str, room: str, floor: str = "0") -> str:
    """A room."""
    return f"{building}, {room}, {floor}"


@completion("room://{building}/{room}{?floor}", "building")
def complete_building(value: str) -> list[str]:
    return [each for each in ("north wing", "north/east", "south") if each.startswith(value)]


@completion("room://{building}/{room}{?floor}", "room")
def complete_room(value: str, arguments: dict[str, str]) -> list[str]:
    return [f"{arguments.get('building', 'no building')} {number}" for number in (1, 2)]


@prompt
def toast(name: str, drink: str = "water") -> str:
    """A toast."""
    return f"To {name}, with {drink}!"


@completion(toast, "drink")
def complete_drink(value: str) -> Completion:
    return Completion.matching(value, ["wine", "water", "tea"])


@tool(read_only=True)
def count_stars() -> dict[str, Any]:
    """Return a number that no browser can hold."""
    return {"stars": 12345678901234567890123}


@resource("site://logo", mime_type="image/png")
def logo() -> bytes:
    """An image."""
    return PNG


@resource("site://drawing", mime_type="image/svg+xml")
def drawing() -> bytes:
    """An image that is a document, with a script."""
    return f'<svg xmlns="http://www.w3.org/2000/svg">{SCRIPT}</svg>'.encode()


def hostile_result(name: str = "") -> str:
    return SCRIPT + BIDI.replace("\u202e", "\\u202e") + "\u202e\u0007" + "x" * 1_000_000


default_server.register_tool(
    hostile_result,
    name="hostile",
    destructive=False,
    title=SCRIPT,
    description=SCRIPT + "y" * 2000,
    input_schema={
        "type": "object",
        "properties": {"name": {"type": "string", "title": SCRIPT, "description": SCRIPT}},
    },
)
