"""Types that are described without pydantic as pydantic would, and converted by it later."""

import gc
from typing import Annotated, Any, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from pydantic_core import to_jsonable_python

from django_mcp.protocol.json import encode
from django_mcp.registry.adapters import adapt, adapt_arguments, input_schema, schema_of
from django_mcp.registry.plain_types import (
    MAX_DEPTH,
    LazyAdapter,
    is_plain_value,
    make_conversions,
    plain_schema,
)
from django_mcp.registry.problems import ArgumentErrors, RegistrationError
from django_mcp.registry.signatures import EMPTY, Parameter
from django_mcp.server.memory import PlainConverter
from tests.support.registry import Site

# Under names of their own, so that the older spellings are tested as well, and types in variables fit.
Either: Any = Union
Maybe: Any = Optional
List: Any = list
Dict: Any = dict

SCALARS: list[Any] = [str, int, float, bool, type(None), Any]


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda each: List[each]),
        inner.map(lambda each: Dict[str, each]),
        inner.map(lambda each: Maybe[each]),
        inner.map(lambda each: Either[None, each]),
    )


plain_types = st.recursive(st.sampled_from(SCALARS), wider, max_leaves=MAX_DEPTH)
defaults: st.SearchStrategy[Any] = st.one_of(
    st.just(EMPTY), st.none(), st.booleans(), st.integers(), st.floats(), st.text()
)


def nested(depth: int) -> Any:
    found: Any = int
    for _ in range(depth):
        found = List[found]
    return found


@given(plain_types)
def test_plain_types_are_described_as_pydantic_describes_them(annotation: Any):
    written = plain_schema(annotation)

    assert written is not None
    for is_output in (False, True):
        generated = schema_of(adapt(annotation), is_output=is_output)
        assert encode(written) == encode(generated)


@given(st.lists(st.tuples(plain_types, defaults), max_size=4))
def test_arguments_are_described_as_pydantic_describes_them(fields: list[tuple[Any, Any]]):
    parameters = [
        Parameter(
            name=f"p{n}", annotation=annotation, default=default, is_required=default is EMPTY
        )
        for n, (annotation, default) in enumerate(fields)
        if default in (EMPTY, None) or is_plain_value(default, annotation)
    ]
    rules = PlainConverter()
    arguments = adapt_arguments(parameters, "here", rules)

    written = input_schema(arguments, parameters, "here", rules)

    generated = schema_of(arguments.adapter)
    for each in parameters:
        of_field = generated["properties"][each.name]
        if "default" in written["properties"][each.name]:
            of_field["default"] = to_jsonable_python(each.default, inf_nan_mode="null")
    assert encode(written["properties"]) == encode(generated["properties"])
    assert written.get("required") == generated.get("required")


@given(
    plain_types,
    st.recursive(defaults, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
)
def test_defaults_fit_plain_types_as_pydantic_has_them(annotation: Any, default: Any):
    def may_register(type_: Any) -> bool:
        parameter = Parameter(name="p", annotation=type_, default=default, is_required=False)
        try:
            adapt_arguments([parameter], "here", PlainConverter())
        except RegistrationError as error:
            assert "the default of the parameter `p`" in str(error)  # noqa: PT017 - not always raised
            return False
        return True

    assert may_register(annotation) == may_register(Annotated[annotation, "described"])


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[int, Field(ge=1)],
        Annotated[str, []],
        list[Annotated[int, Field(ge=1)]],
        dict[int, str],
        tuple[int, ...],
        Either[int, str],
        Either[int, str, None],
        list,
        dict,
        type("Text", (str,), {}),
        nested(MAX_DEPTH + 1),
        nested(5000),
    ],
)
def test_other_types_are_left_to_pydantic(annotation: Any):
    assert plain_schema(annotation) is None


def test_the_deepest_plain_type_is_described():
    assert plain_schema(nested(MAX_DEPTH)) is not None


def test_an_unresolvable_type_is_rejected_at_registration(site: Site):
    def handle(plain: int, other: dict[str, "Site"]) -> None: ...

    with pytest.raises(RegistrationError, match="the type of the parameter `other`"):
        site.tool(handle)


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (list[int], [1.0], [1]),
        (Maybe[str], None, None),
        (dict[str, Maybe[float]], {"a": None, "b": 1}, {"a": None, "b": 1.0}),
        (Any, {"a": [None]}, {"a": [None]}),
    ],
)
def test_the_first_value_and_the_others_are_converted(
    site: Site, annotation: Any, value: Any, expected: Any
):
    def handle(value: annotation) -> None: ...

    site.tool(handle)
    read = site.registry.tools["handle"].handler.read

    for _ in range(2):
        bound = read({"value": value})
        assert bound == {"value": expected}
        assert type(bound["value"]) is type(expected)


def test_the_first_error_and_the_others_are_reported(site: Site):
    @site.tool
    def handle(count: int, names: list[str]) -> None: ...

    read = site.registry.tools["handle"].handler.read
    for _ in range(2):
        with pytest.raises(ArgumentErrors) as raised:
            read({"count": "three", "names": [1], "more": 1})
        pointers = [each.pointer for each in raised.value.problems]
        assert pointers == ["/count", "/more", "/names/0"]


def test_a_converter_is_built_on_first_use_or_server_start():
    made: list[str] = []

    def conversion(name: str, *, waits: bool) -> LazyAdapter:
        def make() -> Any:
            made.append(name)
            return adapt(int)

        return LazyAdapter(make, waits=waits)

    first, second = conversion("first", waits=True), conversion("second", waits=True)
    _at_once = conversion("at once", waits=False)
    assert made == ["at once"]

    assert first.validate(1) == first.validate(1) == 1
    assert made == ["at once", "first"]

    make_conversions()
    make_conversions()
    assert made == ["at once", "first", "second"]
    assert second.validate(2) == 2
    assert made == ["at once", "first", "second"]


def test_an_unused_converter_is_not_built():
    made: list[str] = []
    conversion: Any = LazyAdapter(lambda: made.append("it"), waits=True)  # type: ignore[arg-type,return-value]

    del conversion
    gc.collect()
    make_conversions()

    assert made == []
