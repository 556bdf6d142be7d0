"""From type hints to the input schema, and from JSON arguments to the types."""

import enum
import functools
import re
import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, Union
from uuid import UUID

import annotated_types
import pytest
import typing_extensions
from django.contrib.auth.models import Group
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from django_mcp.protocol.header_params import HeaderParam, McpHeader
from django_mcp.registry.problems import ArgumentErrors, RegistrationError
from tests.support.registry import Ctx, Lazy, Site, bind

# Under names of their own, so that the older spellings are tested as well.
Either: Any = Union
Maybe: Any = Optional


class Status(enum.Enum):
    """Where an order is."""

    PLACED = "placed"
    SHIPPED = "shipped"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Line(typing_extensions.TypedDict):
    sku: Annotated[str, Field(description="The article.")]
    quantity: NotRequired[int]


class ModernLine(typing_extensions.TypedDict, total=False):
    sku: typing_extensions.Required[str]
    quantity: int


@dataclass
class Address:
    street: str
    country: str = "DE"
    tags: list[str] = field(default_factory=list)


class Item(BaseModel):
    name: str
    price: Decimal = Field(gt=0)


class Node(BaseModel):
    children: list["Node"] = []


NOT_JSON: Any = object()
NONE: Any = None
ADDRESS = Address("x")


Alias = typing_extensions.TypeAliasType("Alias", Annotated[int, "A number."])
NewName = typing.NewType("NewName", str)


def schema_for(annotation: Any, **options: Any) -> Any:
    """Return what a parameter of this type is published as."""
    site = Site()

    def handle(value) -> str:
        return ""

    handle.__annotations__["value"] = annotation
    site.register_tool(handle, **options)
    return site.tool_input_schema("handle")


def property_for(annotation: Any) -> Any:
    return schema_for(annotation)["properties"]["value"]


def converted(annotation: Any, value: Any) -> Any:
    """Return what a handler gets for a JSON value that its schema allows."""
    site = Site()
    got = []

    def handle(value):
        got.append(value)

    handle.__annotations__["value"] = annotation
    site.register_tool(handle)
    site.call("handle", {"value": value})
    return got[0]


@pytest.mark.parametrize(
    ("annotation", "published"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (object, {}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (
            Literal["a", 1, None],
            {
                "anyOf": [
                    {"type": "string", "enum": ["a"]},
                    {"type": "integer", "enum": [1]},
                    {"type": "null"},
                ]
            },
        ),
        (Literal["a"], {"type": "string", "const": "a"}),
        (Maybe[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (Either[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (list, {"type": "array", "items": {}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (date, {"type": "string", "description": "Format: date, YYYY-MM-DD."}),
        (datetime, {"type": "string", "format": "date-time"}),
        (timedelta, {"type": "string", "description": "Format: duration of ISO 8601."}),
        (UUID, {"type": "string", "description": "Format: uuid."}),
        (Path, {"type": "string", "description": "Format: path."}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (Annotated[int, annotated_types.Gt(0)], {"type": "integer", "exclusiveMinimum": 0}),
        (Annotated[str, annotated_types.MaxLen(3)], {"type": "string", "maxLength": 3}),
        (Annotated[str, Field(pattern="^a$")], {"type": "string", "pattern": "^a$"}),
        (Annotated[str, "Its name."], {"type": "string", "description": "Its name."}),
        (Annotated[str, Field(title="Name")], {"type": "string", "title": "Name"}),
        (NewName, {"type": "string"}),
        (Annotated[str, Field(examples=["a"])], {"type": "string", "examples": ["a"]}),
    ],
)
def test_a_type_is_published_with_its_schema(annotation: Any, published: Any):
    assert property_for(annotation) == published


def test_a_decimal_is_a_number_or_its_text():
    kinds = [branch["type"] for branch in property_for(Decimal)["anyOf"]]

    assert kinds == ["number", "string"]


def test_arguments_are_a_closed_object():
    published = schema_for(int)

    assert published == {
        "type": "object",
        "properties": {"value": {"type": "integer"}},
        "required": ["value"],
        "additionalProperties": False,
    }


def test_no_arguments_give_the_recommended_schema(site: Site):
    @site.tool
    def ping() -> str:
        return "pong"

    assert site.tool_input_schema("ping") == {"type": "object", "additionalProperties": False}
    assert site.call("ping").content[0].text == "pong"


def test_a_type_alias_is_resolved():
    published = schema_for(Alias)["properties"]["value"]

    assert published["description"] == "A number."


def test_an_enum_is_published_as_its_values():
    published = property_for(Status)

    assert published["enum"] == ["placed", "shipped"]
    assert published["description"] == "Where an order is."


@pytest.mark.parametrize("cls", [Line, ModernLine])
def test_a_typed_dict_publishes_required_keys(cls: Any):
    definition = property_for(cls)

    assert definition["required"] == ["sku"]
    assert definition["properties"]["quantity"] == {"type": "integer"}


@pytest.mark.parametrize(
    "annotation",
    [Line, list[Line], dict[str, Line], Maybe[Line], Annotated[Line, "x"], int | list[Line]],
)
def test_a_typed_dict_will_do_anywhere(annotation: Any):
    assert "The article." in str(property_for(annotation))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there the two are the same")
def test_before_python_3_12_the_typed_dict_of_typing_is_refused_with_the_remedy():
    """It would lose which keys are not required."""

    class Old(typing.TypedDict):
        sku: str

    with pytest.raises(RegistrationError, match=r"use `typing_extensions\.TypedDict` instead"):
        schema_for(list[Old])


def test_fields_keep_their_descriptions():
    assert property_for(Line)["properties"]["sku"]["description"] == "The article."


def test_dataclasses_and_models_are_published_as_objects():
    address = property_for(Address)
    item = property_for(Item)

    assert address["required"] == ["street"]
    assert address["properties"]["country"] == {"type": "string", "default": "DE"}
    assert item["required"] == ["name", "price"]


def test_titles_are_published_only_when_given():
    text = str(schema_for(list[Item]))
    order = schema_for(Node)

    assert "'title'" not in text
    assert "title" not in order["$defs"]["Node"]


def test_a_model_may_be_recursive():
    assert converted(Node, {"children": [{"children": []}]}) == Node(children=[Node()])


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (Decimal, "1.50", Decimal("1.50")),
        (Decimal, 0.1, Decimal("0.1")),
        (date, "2030-01-02", date(2030, 1, 2)),
        (datetime, "2030-01-02T03:04:05Z", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (timedelta, "PT1H", timedelta(hours=1)),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678123456781234567812345678")),
        (Status, "placed", Status.PLACED),
        (Size, 2, Size.LARGE),
        (Path, "a/b", Path("a/b")),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (frozenset[str], ["a"], frozenset({"a"})),
        (dict[str, date], {"a": "2030-01-02"}, {"a": date(2030, 1, 2)}),
        (Line, {"sku": "a"}, {"sku": "a"}),
        (Address, {"street": "x"}, Address("x")),
        (Item, {"name": "a", "price": 1}, Item(name="a", price=Decimal(1))),
        (list[Address], [{"street": "x"}], [Address("x")]),
        (Either[int, str], "5", "5"),
        (int | None, None, None),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
        (int, 10**30, 10**30),
    ],
)
def test_an_argument_arrives_as_its_type(annotation: Any, value: Any, expected: Any):
    got = converted(annotation, value)

    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    "name",
    [
        "json",
        "copy",
        "schema",
        "dict",
        "model_config",
        "model_fields",
        "_x",
        "__x__",
        "self_",
        "validate",
        "fields",
        "class_",
    ],
)
def test_any_parameter_name_works(name: str):
    site = Site()
    namespace: dict[str, Any] = {}
    exec(f"def handle({name}: int, other: str = 'b'): return [{name}, other]", namespace)
    site.register_tool(namespace["handle"])

    assert list(site.tool_input_schema("handle")["properties"]) == [name, "other"]
    assert site.call("handle", {name: 1}).structured == [1, "b"]


def test_json_serializable_defaults_are_published(site: Site):
    @site.tool
    def handle(
        a: int = 1,
        b: str | None = None,
        c: Status = Status.PLACED,
        d: date = date(2030, 1, 2),
        e: Any = NOT_JSON,
        f: int = NONE,
        g: Address = ADDRESS,
        h: float = float("inf"),
    ) -> None: ...

    published = site.tool_input_schema("handle")
    defaults = {
        name: schema["default"]
        for name, schema in published["properties"].items()
        if "default" in schema
    }

    assert "required" not in published
    assert defaults == {
        "a": 1,
        "b": None,
        "c": "placed",
        "d": "2030-01-02",
        "g": {"street": "x", "country": "DE", "tags": []},
    }


def test_a_default_without_a_json_form_is_passed_unchanged(site: Site):
    marker = object()

    @site.tool
    def handle(value: Any = marker) -> str:
        return str(value is marker)

    assert site.call("handle").content[0].text == "True"


class Loud(str):
    __slots__ = ()


def add_one(value: int) -> int:
    raise AssertionError("the site's code does not run while the site starts")


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int, None),
        (int, 5.0),
        (float, 1),
        (bool, 0),
        (str, Loud("x")),
        (str, Lazy(en="x")),
        (list[str], ()),
        (list[Status], (Status.PLACED,)),
        (Sequence[str], []),
        (dict[str, int], {}),
        (Maybe[date], None),
        (date, date(2030, 1, 2)),
        (Decimal, Decimal("1.5")),
        (Literal["a", "b"], "b"),
        (Size, 1),
        (Status, Status.SHIPPED),
        (Address, Address("x")),
        (Line, {"sku": "x"}),
        (Annotated[str, StringConstraints(strip_whitespace=True)], " x "),
        (Annotated[int, AfterValidator(add_one)], "x"),
        (Any, object()),
    ],
)
def test_a_default_of_the_declared_type_is_accepted(site: Site, annotation: Any, default: Any):
    def handle(value: Any = default) -> None: ...

    handle.__annotations__["value"] = annotation
    site.register_tool(handle)
    site.register_prompt(handle)


@pytest.mark.parametrize(
    ("annotation", "default", "message"),
    [
        (int, "20", "`value`, '20', does not fit its annotation: it has another type"),
        (str, 20, "another type"),
        (list[int], ["1"], "another type"),
        (dict[str, int], {"a": None}, "another type"),
        (Maybe[int], "x", "another type"),
        (date, "2030-01-02", "would get it as it is"),
        (list[date], ("2030-01-02",), "would get it as it is"),
        (Status, "placed", "would get it as it is"),
        (Address, {"street": "x"}, "would get it as it is"),
        (Literal["a", "b"], "c", "it should be 'a' or 'b'"),
        (Annotated[int, Field(ge=1)], 0, "it should be greater than or equal to 1"),
        (Line, {"sku": 5}, "/sku should be a valid string"),
        (Annotated[int, Field(ge=1, default=0)], ..., "it should be greater than or equal to 1"),
    ],
)
def test_a_default_of_another_type_is_refused(
    site: Site, annotation: Any, default: Any, message: str
):
    def given(value: Any = default) -> None: ...

    def in_field(value: Any) -> None: ...

    handle = in_field if default is ... else given
    handle.__annotations__["value"] = annotation
    for register in (site.register_tool, site.register_prompt):
        with pytest.raises(RegistrationError, match=re.escape(message)) as found:
            register(handle)
        assert "test_inputs.py" in str(found.value)


def test_a_default_in_a_field_is_filled_in(site: Site):
    @site.tool
    def handle(
        a: int = Field(20, ge=1, description="How many."),
        b: Annotated[int, Field(default=7)] = 8,
    ) -> list[Any]:
        return [a, b]

    published = site.tool_input_schema("handle")

    assert published["properties"]["a"] == {
        "type": "integer",
        "minimum": 1,
        "default": 20,
        "description": "How many.",
    }
    assert site.call("handle").structured == [20, 7]


def test_docstrings_describe_parameters_unless_the_hint_does(site: Site):
    @site.tool
    def handle(a: int, b: Annotated[int, "From the hint."]) -> None:
        """Handle it.

        Args:
            a: From the docstring.
            b: Not used.
        """

    properties = site.tool_input_schema("handle")["properties"]

    assert properties["a"]["description"] == "From the docstring."
    assert properties["b"]["description"] == "From the hint."
    assert site.registry.tools["handle"].description == "Handle it."


def test_problems_beyond_the_schema_are_reported_with_pointers():
    site = Site()

    @site.tool
    def handle(on: date, items: list[Item], choice: Address | Item | None = None) -> None: ...

    entry = site.registry.tools["handle"]
    arguments = {
        "on": "tomorrow",
        "items": [{"name": "a", "price": "1"}, {"name": "a", "price": "x"}],
        "nope": 1,
    }

    with pytest.raises(ArgumentErrors) as errors:
        bind(entry.handler, arguments, None)

    pointers = [problem.pointer for problem in errors.value.problems]
    assert pointers == ["/items/1/price", "/nope", "/on"]
    assert all(len(problem.message) <= 300 for problem in errors.value.problems)


def test_without_a_schema_check_conversion_still_refuses():
    site = Site()

    @site.tool
    def handle(a: int, b: Address) -> None: ...

    with pytest.raises(ArgumentErrors) as errors:
        bind(site.registry.tools["handle"].handler, {"b": {}, "c": 1}, None)

    assert [(each.pointer, each.message) for each in errors.value.problems] == [
        ("/a", "is required"),
        ("/b/street", "is required"),
        ("/c", "is unknown"),
    ]


def test_alternatives_are_not_part_of_a_pointer():
    site = Site()

    @site.tool
    def handle(value: int | Item) -> None: ...

    with pytest.raises(ArgumentErrors) as errors:
        bind(site.registry.tools["handle"].handler, {"value": {"name": "a"}}, None)

    assert {each.pointer for each in errors.value.problems} == {"/value", "/value/price"}


def test_a_function_without_arguments_rejects_any():
    site = Site()

    @site.tool
    def handle() -> None: ...

    with pytest.raises(ArgumentErrors, match="/a: is unknown"):
        bind(site.registry.tools["handle"].handler, {"a": 1}, None)


@pytest.mark.parametrize("annotation", [type(Ctx.__init__), typing.Callable, type])
def test_an_unserializable_type_is_rejected_by_name(annotation: Any):
    with pytest.raises(RegistrationError, match="the parameter `value`") as refused:
        schema_for(annotation)

    assert_is_in_our_terms(refused.value)


class Basket:
    """A class as a site may have it."""


@dataclass
class Delivery:
    basket: Basket


@pytest.mark.parametrize(
    "annotation", [Basket, list[Basket], Basket | None, Annotated[Basket, "Whose."], Delivery]
)
def test_a_custom_class_is_rejected_with_a_hint(annotation: Any):
    with pytest.raises(RegistrationError) as refused:
        schema_for(annotation)

    assert str(refused.value).partition("): ")[2] == (
        f"the type of the parameter `value` has no form in JSON: {__name__}.Basket is a class "
        "whose objects JSON cannot represent. Take what identifies the object, such as the primary "
        "key of a model (`value: int`), or declare its fields with a dataclass, a TypedDict or a "
        "pydantic model."
    )
    assert_is_in_our_terms(refused.value)


@dataclass
class Search:
    words: list[re.Pattern[str]]


@pytest.mark.parametrize(
    "annotation", [re.Pattern, re.Pattern[str] | None, dict[str, typing.Pattern[bytes]], Search]
)
def test_a_type_that_compiles_regular_expressions_of_clients_is_rejected(annotation: Any):
    with pytest.raises(RegistrationError, match=r"it holds an `re\.Pattern`") as refused:
        schema_for(annotation)

    assert_is_in_our_terms(refused.value)


class Slow(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    word: Annotated[str, Field(pattern="^(a+)+$")]
    config: str = ""


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[str, Field(pattern=re.compile("^(a+)+$"))],
        list[Annotated[str, StringConstraints(pattern=re.compile("^(a+)+$"))]],
        Slow,
        Slow | None,
    ],
)
def test_a_pattern_that_python_would_match_is_rejected(site: Site, annotation: Any):
    """Nothing else looks at the arguments of prompts and templates, and a match may take for ever."""

    def show(word: Any) -> str:
        return ""

    show.__annotations__["word"] = annotation
    for register in (
        site.register_tool,
        site.register_prompt,
        functools.partial(site.register_resource, "shop://words/{word}"),
    ):
        with pytest.raises(RegistrationError, match=r"Python's `re`") as refused:
            register(show)
        assert_is_in_our_terms(refused.value)


def test_a_pattern_that_is_a_string_is_accepted(site: Site):
    class Unused(BaseModel):
        model_config = ConfigDict(regex_engine="python-re")
        word: str

    def show(word: Annotated[str, Field(pattern="^(a+)+$")], other: Any) -> str:
        return word

    show.__annotations__["other"] = Unused
    site.register_tool(show)
    site.register_prompt(show)


def test_a_django_model_argument_is_rejected_with_a_hint():
    with pytest.raises(RegistrationError, match=r"`value: int`") as refused:
        schema_for(Group)

    assert "django.contrib.auth.models.Group is a class" in str(refused.value)
    assert_is_in_our_terms(refused.value)


def assert_is_in_our_terms(error: Exception) -> None:
    text = str(error)
    assert "\n" not in text
    for term in ("arbitrary_types_allowed", "core_schema", "core-schema", "handler(", "JsonSchema"):
        assert term not in text


def test_an_argument_may_be_repeated_in_a_header(site: Site):
    @site.tool
    def handle(
        region: Annotated[str, McpHeader("Region")],
        zone: Annotated[str | None, McpHeader("Zone"), "Where."] = None,
        kind: Annotated[Status, McpHeader("Kind")] = Status.PLACED,
        other: int = 1,
    ) -> None: ...

    properties = site.tool_input_schema("handle")["properties"]

    assert properties["region"] == {"type": "string", "x-mcp-header": "Region"}
    assert properties["zone"] == {
        "type": "string",
        "x-mcp-header": "Zone",
        "description": "Where.",
    }
    assert properties["kind"]["enum"] == ["placed", "shipped"]
    assert site.registry.tools["handle"].header_params == (
        HeaderParam(path=("region",), header="Mcp-Param-Region"),
        HeaderParam(path=("zone",), header="Mcp-Param-Zone"),
        HeaderParam(path=("kind",), header="Mcp-Param-Kind"),
    )


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[str, McpHeader("Re gion")],
        Annotated[str, McpHeader("Re_gion")],
        Annotated[float, McpHeader("Region")],
        Annotated[list[str], McpHeader("Region")],
        list[Annotated[str, McpHeader("Region")]],
    ],
)
def test_an_illegal_header_is_refused_naming_the_function(annotation: Any):
    with pytest.raises(RegistrationError, match=r"handle \(.*test_inputs.py:\d+\): .*x-mcp-header"):
        schema_for(annotation)


def test_lazy_descriptions_follow_the_language(site: Site, monkeypatch: pytest.MonkeyPatch):
    @site.tool(title=Lazy(en="Find", de="Suchen"), description=Lazy(en="Finds.", de="Sucht."))
    def handle(
        a: Annotated[int, Lazy(en="Number", de="Zahl")],
        b: Annotated[int, Field(description="Plain.")] = 1,
    ) -> None: ...

    entry = site.registry.tools["handle"]
    english = entry.to_wire()
    monkeypatch.setattr(Lazy, "language", "de")
    german = entry.to_wire()

    assert (english["title"], english["description"]) == ("Find", "Finds.")
    assert (german["title"], german["description"]) == ("Suchen", "Sucht.")
    assert english["inputSchema"]["properties"]["a"]["description"] == "Number"
    assert german["inputSchema"]["properties"]["a"]["description"] == "Zahl"
    assert site.tool_input_schema("handle")["properties"]["a"]["description"] == "Zahl"


def test_a_partial_needs_a_name_and_keeps_its_fixed_arguments(site: Site):
    def find(tenant: str, query: str, limit: int = 3) -> list[Any]:
        return [tenant, query, limit]

    site.register_tool(functools.partial(find, "acme", limit=5), name="find")

    assert list(site.tool_input_schema("find")["properties"]) == ["query"]
    assert site.call("find", {"query": "x"}).structured == ["acme", "x", 5]
    with pytest.raises(RegistrationError, match="it has no name"):
        site.register_tool(functools.partial(find, "acme"))
