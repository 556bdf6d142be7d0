"""Write docs/reference/results.md by calling a server at each revision: `python -m tests.support.results_page`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django_mcp import MCPServer
from django_mcp.protocol.revisions import REVISIONS, Revision
from tests.support.wire import WireClient

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "results.md"

HEAD = """# What a return value becomes

<!-- Written by `python -m tests.support.results_page`, which calls a server; a test compares. Do not edit. -->

Handlers return Python values and never look at the protocol revision. This page shows what clients of each
[revision](../revisions.md) receive. Each example below was called at every revision.

Two fields are left out here because every result of 2026-07-28 has them: `resultType`, and `_meta` with the name and version
of the server. So are `ttlMs` and `cacheScope`, which [caching](../howto/caching.md) describes.

## Tools at a glance

| You return | The model reads | Structured content |
| --- | --- | --- |
| `str` | the text | none |
| a number, a `bool`, a list, a date and so on, with a return annotation | the value as JSON | the value; before 2026-07-28 as `{"result": value}` |
| a dataclass, a pydantic model, a `TypedDict` or a `dict`, with a return annotation | the value as JSON | the object |
| any of these without a return annotation | the value as JSON | for objects and lists, as above |
| `Image`, `Audio`, `File`, `ResourceLink`, `EmbeddedResource` | that block | none |
| a list of blocks and strings | these blocks | none |
| `None` | nothing | none |
| `ToolResult` | its `content` | its `structured` |

Structured content and output schemas exist from 2025-06-18 on. Earlier clients receive the text only.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A handler, what is said of it, and the requests that show what it returns."""

    title: str
    text: str
    code: str
    requests: tuple[tuple[str, str, dict[str, Any]], ...]
    """Each the name of what is returned, the method and the parameters."""


def _call(tool: str, text: str = "", /, **arguments: Any) -> tuple[str, str, dict[str, Any]]:
    return text, "tools/call", {"name": tool, "arguments": arguments}


IMPORTS = """from dataclasses import dataclass

from django_mcp import (
    Completion,
    File,
    Image,
    PromptMessage,
    ProtocolError,
    ReadResult,
    ResourceLink,
    TextContents,
    ToolError,
    ToolResult,
    completion,
    prompt,
    resource,
    tool,
)
"""

EXAMPLES = (
    Example(
        title="Text",
        text="A string is one block of text.",
        code='''@tool(read_only=True)
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"
''',
        requests=(_call("greet", name="Ann"),),
    ),
    Example(
        title="Numbers and lists",
        text=(
            "The annotation becomes the output schema, and the value becomes structured content. Before 2026-07-28 "
            "structured content is\nalways an object, so 2025-06-18 and 2025-11-25 have the value as the `result` of one."
        ),
        code='''@tool(read_only=True)
def in_stock(sku: str) -> int:
    """Return how many are in stock."""
    return 3


@tool(read_only=True)
def colors(sku: str) -> list[str]:
    """Return the colors that a product comes in."""
    return ["red", "blue"]
''',
        requests=(
            _call("in_stock", "`in_stock`", sku="mug"),
            _call("colors", "`colors`", sku="mug"),
            ("The output schema of `in_stock`", "schema", {"name": "in_stock"}),
        ),
    ),
    Example(
        title="Objects",
        text="Dataclasses, pydantic models and `TypedDict`s are objects in every revision that has structured content.",
        code='''@dataclass
class Product:
    sku: str
    price: float


@tool(read_only=True)
def product(sku: str) -> Product:
    """Return a product."""
    return Product(sku, 9.5)
''',
        requests=(_call("product", sku="mug"),),
    ),
    Example(
        title="Without a return annotation",
        text="A function without a return annotation has no output schema. The value still becomes JSON, and `None` becomes no content.",
        code='''@tool(read_only=True)
def sizes(sku: str):
    """Return the sizes that a product comes in."""
    return {"sizes": [1, 2]}


@tool(read_only=True)
def touch(sku: str):
    """Look at a product."""
''',
        requests=(_call("sizes", "`sizes`", sku="mug"), _call("touch", "`touch`", sku="mug")),
    ),
    Example(
        title="Image",
        text="An `Image` holds the bytes of a picture. `Audio` is the same for sound, which clients know from 2025-03-26 on.",
        code='''@tool(read_only=True)
def photo(sku: str) -> Image:
    """Show a product's photo."""
    return Image(b"bytes of a picture", mime_type="image/png")
''',
        requests=(_call("photo", sku="mug"),),
    ),
    Example(
        title="File",
        text=(
            "A `File` takes bytes, a path or an open file. It becomes an image or audio block if its type says so, and "
            "otherwise an embedded resource."
        ),
        code='''@tool(read_only=True)
def export() -> File:
    """Export the stock as a CSV file."""
    return File(b"sku,stock\\nmug,3\\n", name="stock.csv")
''',
        requests=(_call("export"),),
    ),
    Example(
        title="ResourceLink",
        text=(
            "A `ResourceLink` points to a resource that the client may read when it needs it. Clients of older revisions "
            "get it as text."
        ),
        code='''@tool(read_only=True)
def manual(sku: str) -> ResourceLink:
    """Link to the manual of a product."""
    return ResourceLink(f"manual://{sku}", name=sku, mime_type="text/markdown")
''',
        requests=(_call("manual", sku="mug"),),
    ),
    Example(
        title="Several blocks",
        text="Return a list to send several blocks. Strings in it become text.",
        code='''@tool(read_only=True)
def show(sku: str) -> list[str | Image]:
    """Describe a product and show its photo."""
    return ["A red mug.", Image(b"bytes of a picture")]
''',
        requests=(_call("show", sku="mug"),),
    ),
    Example(
        title="ToolResult",
        text=(
            "Return a `ToolResult` to choose text and structured content yourself, to add `_meta`, or to mark a result "
            "as an error\nwithout raising an exception."
        ),
        code='''@tool(read_only=True)
def count_orders(status: str) -> ToolResult:
    """Count orders by status."""
    return ToolResult(
        ["There are 12 open orders."],
        structured={"open": 12},
        meta={"shop.example/page": 1},
    )
''',
        requests=(_call("count_orders", status="open"),),
    ),
    Example(
        title="Errors",
        text=(
            "A `ToolError` is a result that the model reads, so that it can correct the call. A `ProtocolError` is an error "
            "of JSON-RPC for the\nclient program; most clients do not show it to the model. Its code has to lie outside of -32768 to "
            "-32000, unless it is -32602 or -32603."
        ),
        code='''@tool(read_only=True)
def reserve(sku: str) -> str:
    """Reserve a product."""
    raise ToolError(f"{sku} is sold out. Ask for another product.")


@tool(read_only=True)
def render(template: str) -> str:
    """Render a template."""
    raise ProtocolError("The renderer is switched off", code=1001, data={"until": "18:00"})
''',
        requests=(
            _call("reserve", "`reserve`", sku="mug"),
            _call("render", "`render`", template="a"),
        ),
    ),
    Example(
        title="Resources",
        text=(
            "A resource returns a string, bytes, or a value that becomes JSON. The type is `mime_type`, or a default that "
            "follows from the\nvalue. Return a `ReadResult` to send several contents or `_meta`. No revision changes the form of contents."
        ),
        code='''@resource("shop://terms", mime_type="text/markdown")
def terms() -> str:
    """The terms of sale."""
    return "# Terms"


@resource("shop://logo", mime_type="image/png")
def logo() -> bytes:
    """The logo of the shop."""
    return b"bytes of a picture"


@resource("shop://hours")
def hours() -> dict[str, str]:
    """The opening hours."""
    return {"monday": "9-17"}


@resource("shop://both")
def both() -> ReadResult:
    """Two texts at once."""
    return ReadResult([TextContents("shop://a", "A"), TextContents("shop://b", "B")])
''',
        requests=tuple(
            (f"`{uri}`", "resources/read", {"uri": uri})
            for uri in ("shop://terms", "shop://logo", "shop://hours", "shop://both")
        ),
    ),
    Example(
        title="Prompts",
        text=(
            "A string is one message of the user. A list may hold strings and `PromptMessage`s. The content of a `PromptMessage` "
            "is a string, or a\nblock such as `Image`, `File` or `ResourceLink`."
        ),
        code='''@prompt
def advertise(sku: str) -> list[PromptMessage]:
    """Write an advertisement."""
    return [
        PromptMessage(f"Advertise our {sku}. This is its photo:"),
        PromptMessage(Image(b"bytes of a picture")),
        PromptMessage(ResourceLink(f"manual://{sku}", name=sku)),
        PromptMessage("Here is a first draft:", role="assistant"),
    ]
''',
        requests=(("", "prompts/get", {"name": "advertise", "arguments": {"sku": "mug"}}),),
    ),
    Example(
        title="Completions",
        text=(
            "`@completion` makes a function suggest values for an argument of a prompt or of a resource template. It returns a list, "
            "or a\n`Completion` to say how many values there are. `Completion.matching` chooses the candidates that begin with the value."
        ),
        code="""@completion(advertise, "sku")
def complete_sku(value: str) -> Completion:
    return Completion.matching(value, ["kettle", "lamp", "mug", "muffin tin"])
""",
        requests=(
            (
                "",
                "completion/complete",
                {
                    "ref": {"type": "ref/prompt", "name": "advertise"},
                    "argument": {"name": "sku", "value": "mu"},
                },
            ),
        ),
    ),
)

LINE = 90
LEFT_OUT = {"resultType", "ttlMs", "cacheScope"}
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


def page() -> str:
    """Return the whole page."""
    shown = asyncio.run(_answers(_examples_server()))
    parts = [
        HEAD,
        "## Examples\n",
        _block("python", IMPORTS),
    ]
    for example in EXAMPLES:
        parts += [f"### {example.title}\n", f"{example.text}\n", _block("python", example.code)]
        for subject, method, params in example.requests:
            parts += _grouped(subject, shown[_key(method, params)])
    return "\n".join(parts)


def _examples_server() -> MCPServer:
    """Return a server with the handlers of the page; the default one would keep them for other tests."""
    server = MCPServer("examples")
    decorators = ("completion", "prompt", "resource", "tool")
    namespace: dict[str, Any] = {"__name__": __name__}
    for code in (IMPORTS, *(each.code for each in EXAMPLES)):
        exec(compile(code, str(PAGE), "exec", dont_inherit=True), namespace)
        namespace.update({name: getattr(server, name) for name in decorators})
    return server


def _key(method: str, params: dict[str, Any]) -> str:
    return json.dumps([method, params])


async def _answers(server: MCPServer) -> dict[str, list[tuple[Revision, Any]]]:
    """Return what each request gets at each revision."""
    answers: dict[str, list[tuple[Revision, Any]]] = {}
    for revision in REVISIONS:
        client = WireClient(server, revision)
        for example in EXAMPLES:
            for _, method, params in example.requests:
                got = await _answer(client, method, params)
                answers.setdefault(_key(method, params), []).append((revision, got))
    return answers


async def _answer(client: WireClient, method: str, params: dict[str, Any]) -> Any:
    if method == "schema":
        tools = (await client.result("tools/list"))["tools"]
        found = next(tool for tool in tools if tool["name"] == params["name"])
        return found.get("outputSchema", "none")
    _, body = await client.send(method, params)
    if "error" in body:
        return {"error": body["error"]}
    result = {key: value for key, value in body["result"].items() if key not in LEFT_OUT}
    result.get("_meta", {}).pop(SERVER_INFO, None)
    return {key: value for key, value in result.items() if value != {}}


def _grouped(subject: str, answers: Iterable[tuple[Revision, Any]]) -> list[str]:
    """Return one block for each distinct answer, newest first, with the revisions that get it."""
    groups: list[tuple[list[str], Any]] = []
    for revision, answer in sorted(answers, key=lambda each: each[0].name, reverse=True):
        if groups and groups[-1][1] == answer:
            groups[-1][0].append(revision.name)
        else:
            groups.append(([revision.name], answer))
    parts: list[str] = []
    for names, answer in groups:
        label = f"{subject}, in {_span(names)}" if subject else f"In {_span(names)}"
        if answer == "none":
            parts.append(f"{label}: none.\n")
        else:
            parts += [f"{label}:\n", _block("json", _indented(answer) + "\n")]
    return parts


def _span(names: list[str]) -> str:
    """Name the revisions of a group, whose names come newest first."""
    if len(names) == len(REVISIONS):
        return "every revision"
    if names[-1] == REVISIONS[0].name and len(names) > 1:
        return f"{names[0]} and earlier"
    if len(names) == 1:
        return names[0]
    return f"{names[-1]} to {names[0]}"


def _indented(value: Any, depth: int = 0) -> str:
    """Return JSON that breaks only lines that would be too long."""
    line = json.dumps(value)
    if len(line) + 2 * depth <= LINE or not isinstance(value, dict | list):
        return line
    indent, end = "  " * (depth + 1), "  " * depth
    if isinstance(value, list):
        inner = [f"{indent}{_indented(each, depth + 1)}" for each in value]
        return "[\n" + ",\n".join(inner) + f"\n{end}]"
    inner = [f'{indent}"{key}": {_indented(each, depth + 1)}' for key, each in value.items()]
    return "{\n" + ",\n".join(inner) + f"\n{end}}}"


def _block(info: str, text: str) -> str:
    return f"```{info}\n{text}```\n"


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

    django.setup()
    PAGE.write_text(page())
