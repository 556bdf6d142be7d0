"""Return values of tools, of every type that an author may try."""

import enum
import types
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field
from typing_extensions import TypedDict

from django_mcp.protocol.asks import InputRequired
from django_mcp.protocol.content import (
    Audio,
    BlobContents,
    EmbeddedResource,
    File,
    Image,
    ResourceLink,
    Text,
    TextContents,
)
from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.results import ABSENT, ToolResult
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.returns import ReturnError, find_output, to_json
from django_mcp.registry.signatures import EMPTY
from django_mcp.registry.validators import Validator
from django_mcp.server.memory import PlainConverter
from tests.support.registry import Lazy, Site

# Under names of their own, so that the older spellings are tested as well.
Either: Any = Union
Maybe: Any = Optional


class OrderOut(BaseModel):
    number: str
    total: Decimal = Field(description="In euros.")

    @computed_field
    def label(self) -> str:
        return f"Order {self.number}"


class Row(TypedDict):
    sku: str
    added: date


@dataclass
class Point:
    x: int
    y: int


class Pair(NamedTuple):
    left: int
    right: int


class Status(enum.Enum):
    PLACED = "placed"


class Strange:
    """Of no form in JSON."""


def result(value: Any, annotation: Any = EMPTY, **options: Any) -> Any:
    """Return the result of a tool that returns a value, with that annotation."""
    site = Site(options.pop("converter", None))

    def handle():
        return value

    if annotation is not EMPTY:
        handle.__annotations__["return"] = annotation
    site.register_tool(handle, **options)
    found = site.call("handle")
    encode(found.to_wire())
    return found


def output_schema(annotation: Any) -> Any:
    def handle(): ...

    handle.__annotations__["return"] = annotation
    return Site().register_tool(handle).output_schema


def iter_of_nothing() -> Iterator[str]:
    yield from ()


PICTURE = Image(b"png")
LINK = ResourceLink("order://1", "order")
EMBEDDED = EmbeddedResource(TextContents("order://1", "text"))


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", [Text("text")]),
        ("", [Text("")]),
        (None, []),
        (5, [Text("5")]),
        (1.5, [Text("1.5")]),
        (True, [Text("true")]),
        (Decimal("1.50"), [Text("1.50")]),
        (date(2030, 1, 2), [Text("2030-01-02")]),
        (UUID(int=1), [Text("00000000-0000-0000-0000-000000000001")]),
        (Status.PLACED, [Text("placed")]),
        (Lazy(en="Found", de="Gefunden"), [Text("Found")]),
        (Text("a"), [Text("a")]),
        (PICTURE, [PICTURE]),
        (LINK, [LINK]),
        (EMBEDDED, [EMBEDDED]),
        (EMBEDDED.resource, [EMBEDDED]),
        (["a", PICTURE, {"b": 1}, 5], [Text("a"), PICTURE, Text('{"b":1}'), Text("5")]),
        ((PICTURE, LINK), [PICTURE, LINK]),
        ((word for word in ["a", "b"]), [Text("a"), Text("b")]),
        ((word for word in ["a", PICTURE]), [Text("a"), PICTURE]),
        (iter_of_nothing(), []),
    ],
)
def test_text_and_blocks_are_content_only(value: Any, content: Any):
    found = result(value)

    assert list(found.content) == content
    assert found.structured is ABSENT
    assert not found.is_error


def test_bytes_become_an_embedded_resource():
    (block,) = result(b"\x00\x01").content

    assert isinstance(block, EmbeddedResource)
    assert isinstance(block.resource, BlobContents)
    assert block.resource.blob == b"\x00\x01"
    assert block.resource.mime_type == "application/octet-stream"


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        (File(b"x", name="a.png"), Image),
        (File(b"x", name="a.wav"), Audio),
        (File(b"x", name="a.csv"), EmbeddedResource),
    ],
)
def test_a_file_becomes_the_block_of_its_type(file: File, kind: type):
    assert isinstance(result(file).content[0], kind)
    assert isinstance(result([file, "text"]).content[0], kind)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": 1}, {"a": 1}),
        ({"d": date(2030, 1, 2), "p": Path("x"), 3: {1}}, {"d": "2030-01-02", "p": "x", "3": [1]}),
        ([1, 2], [1, 2]),
        (["a", "b"], ["a", "b"]),
        ([], []),
        (Point(1, 2), {"x": 1, "y": 2}),
        ([Point(1, 2)], [{"x": 1, "y": 2}]),
        (
            OrderOut(number="7", total=Decimal("1.5")),
            {"number": "7", "total": "1.5", "label": "Order 7"},
        ),
        ({"lazy": Lazy(en="Found")}, {"lazy": "Found"}),
        ({"a": float("nan")}, {"a": None}),
        (({"n": n} for n in (1, 2)), [{"n": 1}, {"n": 2}]),
        ({1}, [1]),
        (Pair(1, 2), [1, 2]),
    ],
)
def test_data_is_structured_content_with_equal_text(value: Any, data: Any):
    found = result(value)

    assert found.structured == data
    assert decode(found.content[0].text) == data
    assert "\n" not in found.content[0].text


def test_a_result_object_is_returned_unchanged():
    given = ToolResult([PICTURE], is_error=True, meta={"a": 1})

    assert result(given) is given


def test_a_result_object_with_data_gets_text_content():
    found = result(ToolResult(structured=Point(1, 2), meta={"a": 1}))

    assert found.structured == {"x": 1, "y": 2}
    assert found.content == (Text('{"x":1,"y":2}'),)
    assert found.meta == {"a": 1}


def test_a_result_object_with_data_keeps_its_content():
    assert result(ToolResult(["Two points"], structured=[])).content == (Text("Two points"),)


@pytest.mark.parametrize(
    "annotation",
    [
        EMPTY, None, Any, object, str, bytes, Maybe[str], list, tuple, list[Any], list[bytes],
        Text, Image, File, ToolResult, list[Text], list[Either[str, Image]], list[Image | str],
        tuple[Text, ...], Maybe[Image], Either[Point, ToolResult], str | Point,
        Iterator[str], Iterable[Text], Generator[str, None, None], AsyncIterator[str | Image],
        InputRequired, str | InputRequired, list[Point] | InputRequired,
        Annotated[str, "text"], Strange, list[Strange], types.GeneratorType,
    ],
    ids=str,
)  # fmt: skip
def test_return_types_without_data_have_no_schema(annotation: Any):
    assert output_schema(annotation) is None


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (bool, {"type": "boolean"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (date, {"type": "string", "description": "Format: date, YYYY-MM-DD."}),
        (Maybe[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Iterator[int], {"type": "array", "items": {"type": "integer"}}),
        (AsyncIterator[int], {"type": "array", "items": {"type": "integer"}}),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                "required": ["x", "y"],
            },
        ),
    ],
    ids=str,
)
def test_a_return_type_is_published_with_its_schema(annotation: Any, schema: Any):
    assert output_schema(annotation) == schema


@pytest.mark.parametrize("annotation", [dict, dict[str, Any]])
def test_dict_like_return_types_have_an_object_schema(annotation: Any):
    assert output_schema(annotation)["type"] == "object"


def test_the_schema_is_in_serialization_mode():
    schema = output_schema(OrderOut)

    assert schema["required"] == ["number", "total", "label"]
    assert schema["properties"]["total"]["type"] == "string"
    assert schema["properties"]["total"]["description"] == "In euros."
    assert "title" not in schema


def test_an_unserializable_return_type_is_rejected():
    @dataclass
    class Broken:
        field: Strange

    with pytest.raises(RegistrationError) as refused:
        output_schema(list[Broken])

    assert str(refused.value).partition("): ")[2] == (
        f"its return type has no form in JSON: {__name__}.Strange is a class whose objects JSON "
        "cannot represent. Declare its fields with a dataclass, a TypedDict or a pydantic model, or "
        "say output_schema=None to publish none."
    )


@pytest.mark.parametrize(
    ("annotation", "value", "data"),
    [
        (int, 5, 5),
        (Maybe[int], None, None),
        (list[str], ["a"], ["a"]),
        (list[str], (word for word in "ab"), ["a", "b"]),
        (Iterator[int], iter([1, 2]), [1, 2]),
        (Row, {"sku": "a", "added": "2030-01-02"}, {"sku": "a", "added": "2030-01-02"}),
        (Row, {"sku": "a", "added": date(2030, 1, 2)}, {"sku": "a", "added": "2030-01-02"}),
        (Point, Point(1, 2), {"x": 1, "y": 2}),
        (Point, {"x": 1, "y": 2}, {"x": 1, "y": 2}),
        (dict[str, Any], {"x": {1: Point(1, 2)}}, {"x": {"1": {"x": 1, "y": 2}}}),
        (Status, Status.PLACED, "placed"),
        (set[int], {1}, [1]),
        (Literal["a", "b"], "a", "a"),
    ],
)
def test_declared_return_types_give_structured_content(annotation: Any, value: Any, data: Any):
    found = result(value, annotation)

    assert found.structured == data
    assert decode(found.content[0].text) == data


def test_a_value_of_another_type_is_rejected_with_missing_fields():
    with pytest.raises(ReturnError) as error:
        result([{"number": "7"}], list[OrderOut])

    assert "did not return what it declares: /0/total is required" in str(error.value)
    assert "test_returns" in str(error.value)


@pytest.mark.parametrize("annotation", [EMPTY, Any, dict[str, Any]])
def test_an_object_without_declared_fields_is_rejected_with_a_hint(annotation: Any):
    value = Strange() if annotation != dict[str, Any] else {"a": Strange()}

    with pytest.raises(ReturnError, match=r"Strange cannot be represented in JSON: .* dataclass"):
        result(value, annotation)


def test_a_circular_value_is_rejected():
    value: list[Any] = []
    value.append(value)

    with pytest.raises(ReturnError, match="Circular"):
        result(value)


def test_a_value_nested_too_deep_is_rejected():
    value: Any = {}
    for _ in range(1000):
        value = {"a": value}

    with pytest.raises(ReturnError, match="depth"):
        result(value)


def test_bytes_that_their_author_writes_as_utf8_and_are_none_are_rejected():
    class Binary(BaseModel):
        model_config = ConfigDict(ser_json_bytes="utf8")
        data: bytes

    with pytest.raises(ReturnError, match="returned what JSON cannot hold"):
        result(Binary(data=b"\xff"), Binary)


def test_without_a_framework_no_result_needs_a_thread():
    assert not PlainConverter().needs_thread(Strange())


def test_an_unawaited_coroutine_is_rejected():
    async def inner() -> str:
        return ""

    coroutine = inner()
    for annotation in (EMPTY, int):
        with pytest.raises(ReturnError, match=r"write `return await \.\.\.` .* `count\(\)`"):
            result(coroutine, annotation)
    coroutine.close()


class Rows:
    """Stands for a framework's lazy rows."""

    def __init__(self, *rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


class RowsConverter(PlainConverter):
    def convert(self, value: Any) -> Any:
        if isinstance(value, Strange):
            raise TypeError("declare its fields")
        return list(value) if isinstance(value, Rows) else value


@pytest.mark.parametrize(
    ("value", "annotation", "data"),
    [
        (Rows(1, 2), EMPTY, [1, 2]),
        (Rows(1, 2), list[int], [1, 2]),
        ({"rows": Rows({"a": Rows(1)})}, EMPTY, {"rows": [{"a": [1]}]}),
        ({"rows": Rows(1)}, dict[str, Any], {"rows": [1]}),
    ],
)
def test_framework_objects_are_converted(value: Any, annotation: Any, data: Any):
    assert result(value, annotation, converter=RowsConverter()).structured == data


def test_the_frameworks_hint_about_an_object_is_reported():
    with pytest.raises(TypeError, match="declare its fields"):
        result(Strange(), converter=RowsConverter())


@pytest.mark.parametrize("value", [{"n": 1}, Point(1, 2), "text", None, 5, [1]])
def test_an_explicit_schema_makes_every_value_structured(value: Any):
    found = result(value, str, output_schema={"description": "Anything."})

    assert found.structured == to_json(value, PlainConverter())
    assert decode(found.content[0].text) == found.structured


def test_an_explicit_schema_may_be_a_type():
    found = result({"x": "1", "y": 2}, output_schema=Point)

    assert found.structured == {"x": 1, "y": 2}


NAN = float("nan")
INFINITE = float("-inf")


@dataclass
class Measured:
    value: float
    limit: float | None = None
    inner: "list[Measured]" = field(default_factory=list)
    by_name: dict[str, float | None] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("value", "annotation", "where"),
    [
        (NAN, float, "nan at the top"),
        ([1.0, INFINITE], list[float], "-inf at /1"),
        ({"a/b": NAN, "c": None}, dict[str, float | int], None),
        ({"a/b": NAN}, dict[str, float], "nan at /a~1b"),
        (Measured(1, inner=[Measured(NAN, None)]), Measured, "nan at /inner/0/value"),
        (Measured(1, INFINITE, by_name={"a": NAN}), Measured, None),
        ((1, NAN), tuple[int, float], "nan at /1"),
        ((None, NAN), tuple[int | None, float | None], None),
        ({"a": NAN, "b": 2**70, "c": None}, dict[str, Any], None),
        (NAN, Literal[1] | float, "nan at the top"),
    ],
)
def test_numbers_that_json_lacks_are_null_only_where_the_type_admits_it(
    value: Any, annotation: Any, where: str | None
):
    if annotation == dict[str, float | int]:
        where = r"/c should be a valid number"
    if where is not None:
        with pytest.raises(ReturnError, match=where):
            result(value, annotation)
        return

    found = result(value, annotation)

    assert found.structured == decode(found.content[0].text)
    validator = Validator(output_schema(annotation), "here", is_input=False)
    assert validator.problems(found.structured) == []


@pytest.mark.parametrize("value", [[NAN], ToolResult(structured=[NAN])])
def test_a_schema_of_the_sites_own_admits_null_or_not(value: Any):
    item: dict[str, Any] = {"type": ["number", "null"]}
    schema = {"type": "array", "items": {"$ref": "#/$defs/item"}, "$defs": {"item": item}}

    assert result(value, output_schema=schema).structured == [None]
    item["type"] = "number"
    failed = ToolResult(structured=[NAN], is_error=True)
    assert result(failed, output_schema=schema).structured == [None]
    with pytest.raises(ReturnError, match="nan at /0: JSON does not have it"):
        result(value, output_schema=schema)


@dataclass
class Node:
    kind: Literal["node"]
    child: "Node | Leaf | None" = None


@dataclass
class Leaf:
    kind: Literal["leaf"]
    value: float | None = None
    child: "Node | Leaf | None" = None


@pytest.mark.timeout(20)
def test_a_number_that_json_lacks_is_found_deep_in_recursive_forms_in_linear_time():
    tree: Node | Leaf = Leaf("leaf", NAN)
    for _ in range(60):
        tree = Node("node", tree)

    found = result(tree, Node | Leaf)

    assert found.content[0].text.count('"node"') == 60


def test_an_integer_does_not_admit_null_either():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    with pytest.raises(ReturnError, match="nan at /n"):
        result({"n": NAN}, output_schema=schema)


@dataclass
class Gathered:
    items: Iterable[int]
    count: int
    others: Any = None


@pytest.mark.parametrize("others", [None, "generator"])
def test_no_iterator_of_a_value_against_its_annotation_is_lost(others: Any):
    def gather() -> Gathered:
        more = (number for number in range(2)) if others else None
        return Gathered((number for number in range(3)), "x", more)  # type: ignore[arg-type]

    site = Site()
    site.register_tool(gather)
    results = [site.call("gather").structured for _ in range(2)]

    assert results == [{"items": [0, 1, 2], "count": "x", "others": [0, 1] if others else None}] * 2


class Reporting(PlainConverter):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def report(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize(
    ("values", "annotation", "text"),
    [
        ([Point("1", 2), Point("1", 2)], Point, "/x must be an integer"),  # type: ignore[arg-type]
        ([OrderOut.model_construct(number=5)] * 2, OrderOut, "/number must be a string"),
        ([[], [Measured("x")]], list[Measured], "/0/value must be a number"),  # type: ignore[arg-type]
        ([{"a": 1}], str, "it is of type dict"),
        (["x"], None, "it is of type str"),
        ([5], str | Image, "it is of type int"),
    ],
)
def test_a_value_against_its_annotation_is_reported_once(
    values: list[Any], annotation: Any, text: str
):
    converter, site = Reporting(), Site()
    site._converter = converter
    waiting = iter(values)

    def handle():
        return next(waiting)

    handle.__annotations__["return"] = annotation
    site.register_tool(handle)
    for _ in values:
        site.call("handle")

    (report,) = converter.texts
    assert "test_returns.py" in report
    assert text in report


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (Point(1, 2), Point),
        (Measured(1), Measured),
        (Text("x"), str | Text),
        (Lazy(en="x"), str),
        (ToolResult(), str),
        (None, str | None),
        (5, EMPTY),
        ({"a": Lazy(en="x")}, dict[str, str]),
    ],
)
def test_a_value_of_its_annotation_is_not_reported(value: Any, annotation: Any):
    converter = Reporting()

    result(value, annotation, converter=converter)

    assert converter.texts == []


def test_a_function_may_return_what_is_converted_to_the_declared_type():
    """As a queryset, which type checkers do not take for a list."""
    site = Site()

    @site.tool(returns=list[OrderOut])
    def handle() -> Iterable[object]:
        return ({"number": number, "total": 1} for number in "ab")

    entry = site.registry.tools["handle"]
    assert entry.output_schema == output_schema(list[OrderOut])
    assert site.call("handle").structured == [
        {"number": number, "total": "1", "label": f"Order {number}"} for number in "ab"
    ]


@pytest.mark.parametrize("returns", [str, Image, Any])
def test_a_returned_type_without_data_publishes_no_schema(returns: Any):
    def handle() -> Point:
        return Point(1, 2)

    assert Site().register_tool(handle, returns=returns).output_schema is None


def test_the_output_schema_can_be_disabled():
    site = Site()

    @site.tool(output_schema=None)
    def handle() -> Point:
        return Point(1, 2)

    assert site.registry.tools["handle"].output_schema is None
    assert site.call("handle").structured == {"x": 1, "y": 2}


def test_an_invalid_explicit_schema_is_rejected():
    with pytest.raises(RegistrationError, match="output_schema= takes a JSON Schema"):
        result(1, output_schema=Strange)


def test_an_explicit_schema_is_checked_like_others():
    with pytest.raises(RegistrationError, match="the output schema refers to"):
        result(1, output_schema={"$ref": "http://example.com/schema"})


def test_results_validate_against_their_schema():
    site = Site()

    @site.tool
    def handle() -> list[OrderOut]:
        return [OrderOut(number="7", total=Decimal(1))]

    validator = site.registry.tools["handle"].output_validator
    assert validator is not None
    assert validator.problems(site.call("handle").structured) == []
    assert validator.problems([{}]) != []


def test_a_dataclass_is_serialized_by_alias():
    class Aliased(BaseModel):
        first: int = Field(alias="firstOne")

    assert output_schema(Aliased)["required"] == ["firstOne"]
    assert result(Aliased(firstOne=1), Aliased).structured == {"firstOne": 1}


def test_a_missing_return_annotation_has_no_output():
    assert find_output(EMPTY, "x", PlainConverter()) is None


@pytest.mark.parametrize("returns", [EMPTY, str, dict[str, int], list[int], Point])
def test_a_returned_exception_has_to_be_raised(returns: Any):
    def tell() -> None: ...

    if returns is not EMPTY:
        tell.__annotations__["return"] = returns
    site = Site(PlainConverter())
    tool = site.register_tool(tell, name="t")

    with pytest.raises(ReturnError, match="returned an exception, ToolError: raise it instead"):
        tool.handler.convert(ToolError("no"))


def test_a_tool_error_needs_a_text():
    with pytest.raises(TypeError, match="message"):
        raise ToolError  # type: ignore[call-arg]
