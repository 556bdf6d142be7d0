"""Tools to be tried in a browser; what they say of themselves and return is hostile here and there."""

import base64
from typing import Annotated, Any, Literal

from pydantic import Field

from django_mcp import Context, Image, ToolResult, default_server, resource, tool
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


@tool
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


@tool
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
def measure(size: int | None, unit: str | None, number: int, marks: list[int] | None = None) -> str:
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


@tool
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
    title=SCRIPT,
    description=SCRIPT + "y" * 2000,
    input_schema={
        "type": "object",
        "properties": {"name": {"type": "string", "title": SCRIPT, "description": SCRIPT}},
    },
)
