"""Tools: their options, explicit schemas, and every kind of function."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, cast

import pytest

from django_mcp.protocol.content import Text
from django_mcp.protocol.header_params import HeaderParam
from django_mcp.registry.options import RULES, ResourceOptions, ToolOptions
from django_mcp.registry.problems import ArgumentErrors, RegistrationError, describe_source
from tests.support.registry import Ctx, Lazy, Site, User, bind

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object"}},
    "properties": {
        "name": {"type": "string", "x-mcp-header": "Name"},
        "address": {"$ref": "#/$defs/address"},
    },
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
    "if": {"required": ["name"]},
    "then": {"minProperties": 1},
    "else": {"required": ["address"]},
    "additionalProperties": False,
}

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


async def acall(site: Site, name: str, arguments: dict[str, Any] | None = None) -> Any:
    handler = site.registry.tools[name].handler
    assert handler.is_async
    return handler.convert(await handler.function(**bind(handler, arguments or {}, Ctx())))


def test_the_decorator_returns_the_function_unchanged(site: Site):
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert site.tool(add) is add
    assert site.tool(name="plus")(add) is add
    assert add(1) == 2
    assert list(site.registry.tools) == ["add", "plus"]


def test_a_tool_is_listed_with_its_options(site: Site):
    @site.tool(
        name="orders.find",
        title=Lazy(en="Find"),
        description=Lazy(en="Finds."),
        read_only=True,
        open_world=False,
        icons=["https://example.com/i.png"],
        meta={"example.com/a": 1},
        timeout=5,
        permission="shop.view_order",
        scopes=["orders"],
        required_client_capabilities={"sampling": {}},
        validate_output=True,
    )
    def find(query: str) -> dict[str, int]:
        """Not this."""
        return {}

    entry = site.registry.tools["orders.find"]

    assert entry.to_wire() == {
        "name": "orders.find",
        "title": "Find",
        "description": "Finds.",
        "inputSchema": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "object", "additionalProperties": {"type": "integer"}},
        "annotations": {
            "title": "Find",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
        "icons": [{"src": "https://example.com/i.png"}],
        "_meta": {"example.com/a": 1},
    }
    assert entry.timeout_s == 5
    assert (entry.access.permission, entry.access.scopes) == (("shop.view_order",), ("orders",))
    assert entry.required_client_capabilities == {"sampling": {}}
    assert entry.validate_output is True
    assert "test_tools.py" in entry.source


def test_unset_options_are_not_listed_but_for_title_and_hints(site: Site):
    @site.tool
    def find() -> str:
        return ""

    entry = site.registry.tools["find"]

    assert entry.to_wire() == {
        "name": "find",
        "title": "Find",
        "inputSchema": {"type": "object", "additionalProperties": False},
        "annotations": {
            "title": "Find",
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": False,
            "openWorldHint": True,
        },
    }
    assert (entry.timeout_s, entry.validate_output, entry.access.permission) == (None, None, None)


@pytest.mark.parametrize(
    ("said", "hints"),
    [
        ({}, {"destructiveHint", "openWorldHint"}),
        ({"read_only": None}, {"destructiveHint", "openWorldHint"}),
        ({"read_only": False}, {"destructiveHint", "openWorldHint"}),
        ({"read_only": True}, {"readOnlyHint", "idempotentHint", "openWorldHint"}),
        ({"read_only": True, "idempotent": False}, {"readOnlyHint", "openWorldHint"}),
        ({"destructive": True}, {"destructiveHint", "openWorldHint"}),
        ({"destructive": False, "open_world": False}, set()),
        ({"idempotent": True, "destructive": False}, {"idempotentHint", "openWorldHint"}),
    ],
)
def test_all_hints_are_explicit(site: Site, said: Any, hints: set[str]):
    found = site.register_tool(lambda: "", name="x", **said).annotations

    assert found == {name: name in hints for name in HINTS}


@pytest.mark.parametrize(
    ("name", "title"),
    [("find_orders", "Find orders"), ("shop.list-HTML", "Shop list HTML"), ("__", "__")],
)
@pytest.mark.parametrize("given", [None, "", " "])
def test_a_tool_without_a_title_is_titled_by_its_name(
    site: Site, name: str, title: str, given: str | None
):
    wire = site.register_tool(lambda: "", name=name, title=given).to_wire()

    assert (wire["title"], wire["annotations"]["title"]) == (title, title)


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "x" * 128])
def test_valid_tool_names_are_accepted(site: Site, name: str):
    assert site.register_tool(lambda: "", name=name).name == name


def test_decorators_take_a_name_by_position(site: Site):
    @site.tool("find.orders", read_only=True)
    def find() -> str:
        return "found"

    @site.prompt("greet", title="Greet somebody")
    def hello() -> str:
        return "hello"

    assert find() == "found"
    assert site.registry.tools["find.orders"].annotations["readOnlyHint"] is True
    assert site.registry.prompts["greet"].title == "Greet somebody"


@pytest.mark.parametrize("decorate", [Site.tool, Site.prompt])
def test_a_decorator_takes_one_name(site: Site, decorate: Any):
    with pytest.raises(RegistrationError, match=r"'a', name='b'\): give one name"):
        decorate(site, "a", name="b")
    with pytest.raises(RegistrationError, match="name"):
        decorate(site, "")(lambda: "")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "x" * 129, "a\n", 5])
def test_other_names_are_rejected(site: Site, name: Any):
    with pytest.raises(RegistrationError, match=r"test_tools\.py"):
        site.register_tool(lambda: "", name=name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout= cannot be 0. It must be a number of seconds above 0"),
        ({"timeout": "10s"}, "timeout= cannot be '10s'. It must be a number of seconds"),
        ({"read_only": "yes"}, "read_only= cannot be 'yes'. It must be True or False"),
        ({"record_arguments": 1}, "It must be True or False"),
        ({"required_client_capabilities": ["sampling"]}, "a dict such as {'sampling': {}}"),
        ({"required_client_capabilities": {"elicitaton": {}}}, "from elicitation, "),
        ({"required_client_capabilities": {"elicitation": True}}, "to dicts"),
        ({"input_schema": True}, "It must be a JSON Schema as a dict"),
        ({"output_schema": 5}, "output_schema= takes a JSON Schema"),
        ({"returns": {"type": "array"}}, "returns= cannot be .* a JSON Schema is an output_schema"),
        ({"returns": "list[int]"}, "returns= cannot be 'list\\[int\\]'. It must be a type"),
        ({"returns": int, "output_schema": None}, "returns= makes the output schema"),
        ({"title": 5}, "title= cannot be 5. It must be a string"),
        ({"description": 5}, "description= cannot be 5. It must be a string"),
        ({"meta": "x"}, "meta= cannot be 'x'. It must be a dict"),
        ({"meta": {"x": object()}}, "meta= has no form in JSON"),
        ({"throttle": "x"}, "throttle= cannot be 'x'. It must be a number, / and s, m, h or d"),
        ({"task": "often"}, "It must be 'never', 'allowed', 'required' or 'auto'"),
        ({"icons": "https://x/y.png"}, "icons= cannot be 'https://x/y.png'. It must be a list of"),
        ({"icons": [5]}, "The icon source '5' is neither"),
        (
            {"icons": [{"src": "https://x/y.png", "mimeType": "image/png"}]},
            "`mimeType`: did you mean `mime_type`",
        ),
        ({"icons": [{"url": "https://x/y.png"}]}, "`url`: did you mean `src`"),
        ({"input_schema": {"type": "array"}}, '"type": "object"'),
        ({"description": "a\x1bb"}, "U\\+001B"),
        ({"permission": [""]}, r"permission= cannot be \[''\]. It must be 'app.codename'"),
        ({"permission": lambda user, order: True}, "synchronous function of the user alone"),
        ({"permission": lambda: True}, "synchronous function of the user alone"),
        ({"permission": lambda ctx: ctx.user.is_staff}, "synchronous function of the user alone"),
        ({"listed_if": lambda request: True}, "synchronous function of the user alone"),
        ({"read_only": True, "destructive": True}, "read_only=True says that it changes nothing"),
        ({"listed_if": lambda user, order: True}, "synchronous function of the user alone"),
    ],
)
def test_options_are_validated(site: Site, options: Any, message: str):
    with pytest.raises(RegistrationError, match=message):
        site.register_tool(lambda: "", name="x", **options)


def test_none_is_the_same_as_no_value(site: Site):
    options: Any = dict.fromkeys(ToolOptions.__annotations__)

    entry = site.register_tool(find, **options)

    assert (entry.name, entry.icons, dict(entry.extensions)) == ("find", (), {})
    assert entry.record_arguments is False


def test_every_option_has_a_rule():
    assert RULES.keys() == {*ToolOptions.__annotations__, *ResourceOptions.__annotations__}


def find(key: str) -> str:
    return key


def test_an_unknown_option_is_refused_with_the_nearest_one(site: Site):
    with pytest.raises(RegistrationError) as raised:
        site.register_tool(find, name="x", readonly=True)  # type: ignore[call-arg]

    source = describe_source(find)
    assert str(raised.value) == (
        f"{source}: a tool has no option 'readonly'. Did you mean 'read_only'?"
    )


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "resource template"])
def test_an_unrecognizable_option_is_rejected_with_all_options(site: Site, kind: str):
    decorators = {
        "tool": site.tool,
        "prompt": site.prompt,
        "resource": partial(site.resource, "shop://orders"),
        "resource template": partial(site.resource, "shop://{key}"),
    }
    decorate = cast(Any, decorators[kind])

    with pytest.raises(
        RegistrationError, match=f": a {kind} has no option 'qqqq'. Use one of name, title,"
    ):
        decorate(qqqq=True)(find)


@pytest.mark.parametrize(
    "judge", [bool, functools.partial(getattr, None), lambda *_: True, lambda u, o=1: o]
)
def test_a_permission_may_be_any_function_that_takes_a_user(site: Site, judge: Any):
    site.register_tool(lambda: "", name="x", permission=judge, listed_if=judge)


def test_a_permission_may_be_a_function(site: Site):
    def judge(user: Any) -> bool:
        return True

    entry = site.register_tool(lambda: "", name="x", permission=judge, check=judge, scopes="a")

    assert (entry.access.permission, entry.access.check) == (judge, judge)
    assert entry.access.scopes == ("a",)


# -- schemas written by hand


def test_an_explicit_schema_is_published_unchanged(site: Site):
    site.register_tool(name="raw", input_schema=SCHEMA, handler=lambda arguments: "")

    published = site.registry.tools["raw"].to_wire()["inputSchema"]
    assert published == SCHEMA
    assert list(published) == list(SCHEMA)
    assert site.registry.tools["raw"].header_params == (
        HeaderParam(path=("name",), header="Mcp-Param-Name"),
    )


def test_an_explicit_schema_is_copied(site: Site):
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    site.register_tool(lambda arguments: "", name="raw", input_schema=schema)

    schema["properties"]["a"] = {}

    assert site.tool_input_schema("raw")["properties"] == {}


def test_all_arguments_are_passed_as_one_dict(site: Site):
    @site.tool(input_schema={"type": "object"})
    def raw(given: dict[str, Any], ctx: Ctx, user: User) -> list[Any]:
        return [given, ctx.user, user]

    assert site.call("raw", {"a": [1]}).structured == [{"a": [1]}, "jane", "jane"]


def test_an_explicit_schema_needs_no_parameter(site: Site):
    @site.tool(input_schema={"type": "object"})
    def raw(ctx: Ctx) -> str:
        return "x"

    assert site.call("raw", {"a": 1}).content == (Text("x"),)


def test_properties_may_be_parameters(site: Site):
    @site.tool(
        input_schema={
            "type": "object",
            "properties": {"region": {"type": "string"}, "weight": {"type": "number"}},
            "required": ["region"],
        }
    )
    def quote(region: str, weight: float = 1) -> list[Any]:
        return [region, weight]

    assert site.call("quote", {"region": "eu"}).structured == ["eu", 1]
    with pytest.raises(ArgumentErrors, match="/x: is unknown"):
        bind(site.registry.tools["quote"].handler, {"region": "eu", "x": 1}, None)


def test_one_property_may_be_the_parameter(site: Site):
    @site.tool(input_schema={"type": "object", "properties": {"region": {"type": "string"}}})
    def quote(region: str = "us") -> str:
        return region

    assert site.call("quote", {"region": "eu"}).content == (Text("eu"),)


def test_parameters_that_differ_from_the_properties_are_rejected(site: Site):
    schema = {"type": "object", "properties": {"a": {}}}

    with pytest.raises(RegistrationError, match="properties of its input schema are `a`"):
        site.register_tool(lambda b, c: "", name="raw", input_schema=schema)


def test_texts_in_an_explicit_schema_may_be_lazy(site: Site, monkeypatch: pytest.MonkeyPatch):
    schema = {"type": "object", "description": Lazy(en="All", de="Alle")}
    site.register_tool(lambda a: "", name="raw", input_schema=schema, output_schema=schema)
    monkeypatch.setattr(Lazy, "language", "de")

    wire = site.registry.tools["raw"].to_wire()

    assert wire["inputSchema"]["description"] == "Alle"
    assert wire["outputSchema"]["description"] == "Alle"


def test_the_input_schema_of_an_unknown_tool_is_an_error(site: Site):
    with pytest.raises(KeyError):
        site.tool_input_schema("nope")


# -- kinds of functions


async def test_coroutine_functions_are_asynchronous(site: Site):
    @site.tool
    async def add(a: int) -> int:
        await asyncio.sleep(0)
        return a + 1

    assert (await acall(site, "add", {"a": 1})).structured == 2


async def test_async_generators_return_all_they_yield(site: Site):
    @site.tool
    async def words(n: int) -> AsyncIterator[str]:
        """Yield words."""
        for number in range(n):
            yield f"word {number}"

    @site.tool
    async def numbers(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    assert (await acall(site, "words", {"n": 2})).content == (Text("word 0"), Text("word 1"))
    assert (await acall(site, "numbers", {"n": 2})).structured == [0, 1]
    assert site.registry.tools["words"].description == "Yield words."


def test_generators_return_all_they_yield(site: Site):
    @site.tool
    def words(n: int) -> Iterator[str]:
        for number in range(n):
            yield f"word {number}"

    assert not site.registry.tools["words"].handler.is_async
    assert site.call("words", {"n": 2}).content == (Text("word 0"), Text("word 1"))


class Finder:
    def find(self, query: str) -> str:
        return f"found {query}"

    async def afind(self, query: str) -> str:
        return f"found {query}"

    @classmethod
    def count(cls, query: str) -> str:
        return f"{cls.__name__} {query}"

    @staticmethod
    def ping(query: str) -> str:
        return f"pong {query}"

    def __call__(self, query: str) -> str:
        return f"called {query}"


class AsyncFinder:
    async def __call__(self, query: str) -> str:
        return f"called {query}"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (Finder().find, "found x"),
        (Finder.count, "Finder x"),
        (Finder.ping, "pong x"),
        (functools.partial(Finder().find), "found x"),
    ],
)
def test_methods_are_tools(site: Site, function: Any, text: str):
    site.register_tool(function, name="t")

    assert not site.registry.tools["t"].handler.is_async
    assert site.call("t", {"query": "x"}).content == (Text(text),)


async def test_objects_and_asynchronous_methods_are_tools(site: Site):
    site.register_tool(Finder(), name="object")
    site.register_tool(Finder().afind)
    site.register_tool(functools.partial(Finder().afind, query="y"), name="partial")
    site.register_tool(AsyncFinder(), name="async")

    assert site.call("object", {"query": "x"}).content == (Text("called x"),)
    assert (await acall(site, "afind", {"query": "x"})).content == (Text("found x"),)
    assert (await acall(site, "partial")).content == (Text("found y"),)
    assert (await acall(site, "async", {"query": "x"})).content == (Text("called x"),)


def test_a_function_marked_as_a_coroutine_function_is_one(site: Site):
    async def inner() -> str:
        return ""

    def marked() -> Any:
        return inner()

    marked._is_coroutine = object()  # type: ignore[attr-defined]

    assert site.register_tool(marked).handler.is_async
