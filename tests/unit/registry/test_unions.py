"""Recursive unions: converted in linear time, or refused when a tool is registered."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Optional,
    TypeVar,
    Union,
)

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from typing_extensions import TypeAliasType, TypedDict

from django_mcp.registry.adapters import adapt
from django_mcp.registry.problems import ArgumentErrors, RegistrationError
from django_mcp.registry.unions import AmbiguousUnion
from tests.support.registry import Ctx, Site, bind

DEPTH = 30
"""Levels of a value. Trying each form at each level would take 2**30 steps, which is many minutes."""

T = TypeVar("T")


class And(BaseModel):
    op: Literal["and"]
    left: "Expression"
    right: "Expression"


class Or(BaseModel):
    op: Literal["or"]
    left: "Expression"
    right: "Expression"


class Equals(BaseModel):
    op: Literal["eq"]
    field: str


Expression = Annotated[Union[And, Or, Equals], Field(discriminator="op")]  # noqa: UP007
And.model_rebuild()
Or.model_rebuild()


@dataclass
class Not:
    kind: Literal["not"]
    inner: "Logic | None" = None


@dataclass
class Same:
    kind: Literal["same", "equal"]
    inner: "Logic | None" = None


Logic = Annotated[Union[Not, Same], Field(discriminator="kind")]  # noqa: UP007


class Deny(TypedDict):
    kind: Literal["deny"]
    rules: "list[Rule]"


class Allow(TypedDict):
    kind: Literal["allow"]
    rules: "list[Rule]"


Rule = TypeAliasType("Rule", "Annotated[Deny | Allow, Field(discriminator='kind')] | str")


class Kind(StrEnum):
    ALL = "all"
    ANY = "any"


class All(BaseModel):
    model_config = ConfigDict(defer_build=True)
    kind: Literal[Kind.ALL] = Field(Kind.ALL, alias="@kind")
    of: "dict[str, Group]" = Field(default_factory=dict)


class Any_(BaseModel):  # noqa: N801
    kind: Literal[Kind.ANY] = Field(Kind.ANY, alias="@kind")
    of: "dict[str, Group]" = Field(default_factory=dict)


Group = Annotated[Union[All, Any_], Field(discriminator="kind")]  # noqa: UP007


class Query(BaseModel):
    """A model of the site that holds the union."""

    where: Expression
    limit: int = 10


class Box(BaseModel, Generic[T]):
    kind: Literal["box"]
    inside: 'Annotated[Box[T] | Bag[T], Field(discriminator="kind")] | T'


class Bag(BaseModel, Generic[T]):
    kind: Literal["bag"]
    inside: 'Annotated[Box[T] | Bag[T], Field(discriminator="kind")] | T'


Box.model_rebuild()


class Tree(BaseModel):
    """Has one recursive form only."""

    kids: "list[Tree | str | int]" = []


class Plus(BaseModel):
    terms: "list[Annotated[Annotated[Plus, Tag('+')] | Annotated[Times, Tag('*')], BY_SIGN]]" = []
    sign: Literal["+"] = "+"


class Times(BaseModel):
    terms: "list[Annotated[Annotated[Plus, Tag('+')] | Annotated[Times, Tag('*')], BY_SIGN]]" = []
    sign: Literal["*"] = "*"


class Own(BaseModel):
    """A model with a constructor of its own, which pydantic calls."""

    kind: Literal["own"] = "own"
    inner: "Ours | None" = None

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)


class Other(BaseModel):
    kind: Literal["other"] = "other"
    inner: "Ours | None" = None


Ours = Annotated[Union[Own, Other], Field(discriminator="kind")]  # noqa: UP007
Own.model_rebuild()
Other.model_rebuild()


class Menu(BaseModel):
    """Mixes forms of different kinds with tagged ones, in dataclasses, lists and maps."""

    kind: Literal["menu"]
    entries: "list[Entry] | dict[str, Entry] | None" = None


@dataclass
class Dish:
    kind: Literal["dish"]
    sides: "list[Entry]"


Entry = TypeAliasType(
    "Entry",
    "str | list[Entry] | Annotated[Menu | Dish, Field(discriminator='kind')]",
)
Menu.model_rebuild()

BY_SIGN = Discriminator(lambda value: value.get("sign", "+"))
Plus.model_rebuild()
JSON = TypeAliasType("JSON", "dict[str, JSON] | list[JSON] | str | int | float | bool | None")


def nested(wrap: Callable[[Any], Any], value: Any) -> Any:
    for _ in range(DEPTH):
        value = wrap(value)
    return value


EQUALS = {"op": "eq", "field": "x"}
EXPRESSION = nested(lambda value: {"op": "or", "left": value, "right": EQUALS}, EQUALS)
LOGIC = nested(lambda value: {"kind": "equal", "inner": value}, None)
RULE = nested(lambda value: {"kind": "allow", "rules": ["x", value]}, "y")
GROUP = nested(lambda value: {"@kind": "any", "of": {"a": value}}, {"@kind": "all"})
OURS = nested(lambda value: {"kind": "own", "inner": value}, {"kind": "other"})
MENU = nested(
    lambda value: {"kind": "menu", "entries": {"a": [{"kind": "dish", "sides": [[value]]}]}}, "soup"
)
LINEAR = [
    pytest.param(Expression, EXPRESSION, id="models"),
    pytest.param(list[Expression], [EXPRESSION], id="in a list"),
    pytest.param(dict[str, Optional[Expression]], {"a": EXPRESSION}, id="optional, in a dict"),  # noqa: UP045
    pytest.param(Query, {"where": EXPRESSION}, id="in a model of the site"),
    pytest.param(Logic, LOGIC, id="dataclasses"),
    pytest.param(Rule, RULE, id="TypedDicts, an alias and a list"),
    pytest.param(Group, GROUP, id="enum members, aliases and defaults"),
    pytest.param(
        Box[int], nested(lambda v: {"kind": "bag", "inside": v}, 1) | {"kind": "box"}, id="generics"
    ),
    pytest.param(Tree, nested(lambda value: {"kids": [value, "x"]}, {}), id="one recursive form"),
    pytest.param(
        Plus, nested(lambda v: {"terms": [v], "sign": "*"}, {}) | {"sign": "+"}, id="tags"
    ),
    pytest.param(Ours, OURS, id="a model with its own __init__"),
    pytest.param(Menu, MENU, id="kinds of JSON values and tags, nested"),
    pytest.param(JSON, nested(lambda value: {"a": [value]}, 1), id="any JSON"),
]


@pytest.mark.parametrize(("annotation", "value"), LINEAR)
def test_a_recursive_union_is_converted_in_linear_time(site: Site, annotation: Any, value: Any):
    seen = []

    def search(where: Any) -> None:
        seen.append(where)

    search.__annotations__["where"] = annotation
    site.register_tool(search)
    handler = site.registry.tools["search"].handler

    handler.function(**bind(handler, {"where": value}, Ctx()))

    assert len(seen) == 1


def test_variants_are_selected_by_the_discriminator(site: Site):
    seen = []

    @site.tool
    def search(where: list[Expression]) -> None:
        seen.extend(where)

    site.call("search", {"where": [{"op": "and", "left": EQUALS, "right": EQUALS}, EQUALS]})

    assert seen == [
        And(op="and", left=Equals(op="eq", field="x"), right=Equals(op="eq", field="x")),
        Equals(op="eq", field="x"),
    ]


@pytest.mark.parametrize("op", ["xor", None, 1, [], {}])
def test_a_value_of_no_variant_has_a_clear_error(site: Site, op: Any):
    @site.tool
    def search(where: Expression) -> None: ...

    handler = site.registry.tools["search"].handler
    with pytest.raises(ArgumentErrors) as found:
        bind(handler, {"where": {"op": op, "left": EQUALS, "right": EQUALS}}, Ctx())

    (problem,) = found.value.problems
    assert problem.pointer == "/where"
    assert "does not match any of the expected tags: 'and', 'or', 'eq'" in problem.message


class Left(BaseModel):
    inner: "Left | Right | None" = None


class Right(BaseModel):
    inner: "Left | Right | None" = None


class Stop(BaseModel):
    kind: Literal["stop"]
    inner: "Stop | Go | None" = None


class Go(BaseModel):
    kind: Literal["go"]
    inner: "Stop | Go | None" = None


class Plan(BaseModel):
    """Has tags with defaults, of which pydantic knows the alias."""

    model_config = ConfigDict(populate_by_name=True)
    step: Literal[Kind.ALL] = Field(Kind.ALL, alias="@step")
    then: "list[Plan | Pause] | str" = []


@dataclass
class Pause:
    seconds: int
    then: "list[Plan | Pause] | str"
    step: Annotated[Literal["pause", "rest"], Field(alias="@step")] = "pause"


class Put(TypedDict):
    do: Literal["put"]
    then: NotRequired["Put | Get | str"]


class Get(TypedDict):
    do: Literal["get"]
    then: NotRequired["Put | Get | str"]


class Built(BaseModel):
    """Its constructor calls pydantic's own validator of the class."""

    kind: Literal["built"]
    inner: "Built | Go | None" = None

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)


class Alike(BaseModel):
    kind: Literal["alike", "go"]
    inner: "Alike | Go | None" = None
    rest: "list[Alike | Go]" = []


class Filled(BaseModel):
    """Its tag may come from its own code."""

    kind: Literal["filled"]
    inner: "Filled | Go | None" = None

    @model_validator(mode="before")
    @classmethod
    def fill(cls, value: Any) -> Any:
        return {"kind": "filled", **value}


@dataclass
class Yes:
    then: "Yes | Nope | None" = None


class Nope(TypedDict):
    then: "Yes | Nope | None"


class Pair(NamedTuple):
    rest: "Pair | list[Pair] | None" = None


class Mixed(BaseModel):
    """Tells two of its three forms apart."""

    kind: Literal["mixed"]
    inner: "dict[str, Mixed] | Annotated[Mixed | Even, Field(discriminator='kind')] | None" = None


class Even(BaseModel):
    kind: Literal["even"]
    inner: Mixed | None = None


class Page(RootModel[list["Page"] | set["Page"]]):
    pass


class Paragraph(BaseModel):
    parts: "list[Paragraph]" = []


class Section(BaseModel):
    parts: "list[Section | Paragraph]" = []


class Holder(BaseModel):
    tree: Paragraph


class Chain(BaseModel):
    tree: "Chain | Holder | None" = None


for model in (
    Left,
    Right,
    Stop,
    Go,
    Built,
    Alike,
    Filled,
    Plan,
    Mixed,
    Even,
    Page,
    Paragraph,
    Section,
    Holder,
    Chain,
):
    model.model_rebuild()
Tuples = TypeAliasType("Tuples", "list[Tuples] | tuple[Tuples, ...] | int")


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        (Left | None, ["`Left`", "`Right`"]),
        (list[Built], ["`Go`"]),
        (Alike, ["`Alike`", "`Go`"]),
        (Filled, ["`Filled`", "`Go`"]),
        (Yes, ["`Yes`", "`Nope`"]),
        (Pair, ["`Pair`", "`list`"]),
        (Mixed, ["`dict`", "`Mixed`"]),
        (Tuples, ["`list`", "`tuple`"]),
        # Only the first form leads back to the union, but each level walks through the other as well.
        (Section, ["`Section`", "`Paragraph`"]),
        (Chain, ["`Chain`", "`Holder`"]),
        (Page, ["`list`", "`set`"]),
        (dict[str, Annotated[Left, "text"]], ["`Left`", "`Right`"]),
    ],
)
def test_a_recursive_union_without_a_discriminator_is_rejected(
    site: Site, annotation: Any, names: list[str]
):
    def search(limit: int, where: Any) -> None: ...

    search.__annotations__["where"] = annotation
    with pytest.raises(RegistrationError) as found:
        site.register_tool(search)

    for text in ("search", "`where`", 'Annotated[A | B, Field(discriminator="kind")]', *names):
        assert text in str(found.value)


STOP = nested(lambda value: {"kind": "stop", "inner": value}, {"kind": "go", "inner": None})
PLAN = nested(
    lambda value: {"@step": "rest", "seconds": 1, "then": [value]}, {"@step": "all", "then": "end"}
)
PUT = nested(lambda value: {"do": "put", "then": value}, {"do": "get"})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Stop | Go, STOP),
        (dict[str, list[Go | Stop | int]], {"a": [STOP, 1]}),
        (Plan | Pause | None, PLAN),
        (Put, PUT),
    ],
)
def test_the_tag_that_all_forms_have_tells_them_apart(site: Site, annotation: Any, value: Any):
    seen = []

    def search(where: Any) -> Any:
        seen.append(where)
        return where

    search.__annotations__ |= {"where": annotation, "return": annotation}
    site.register_tool(search)

    result = site.call("search", {"where": value})

    assert TypeAdapter(type(seen[0])).dump_python(seen[0], by_alias=True, mode="json") == value
    assert result.structured == value


OTHER_PYDANTIC = """
import django
import pydantic_core

django.setup()
from django_mcp.registry.adapters import adapt
from django_mcp.registry.rewriting import builds_changed_classes
from tests.unit.registry.test_unions import STOP, Go, Stop


def change(build):
    def make(schema, config=None, **options):
        if options and {refuses}:
            raise TypeError("unexpected keyword argument")
        return build(schema, config)

    return make


for name in {names}:
    setattr(pydantic_core, name, change(getattr(pydantic_core, name)))
builds_changed_classes.cache_clear()  # the tools of the installed apps were registered before
try:
    adapt(Stop | Go).validate_python(STOP)
except TypeError as problem:
    print("refused:", problem)
"""


@pytest.mark.parametrize(
    ("names", "refuses"),
    [
        (["SchemaValidator", "SchemaSerializer"], True),
        (["SchemaValidator"], False),
        (["SchemaSerializer"], False),
    ],
    ids=["without_the_option", "validators_ignore_it", "serializers_ignore_it"],
)
def test_recursive_unions_are_refused_with_a_pydantic_that_cannot_tell_them_apart(
    names: list[str], refuses: bool
):
    # In a process of its own, since pydantic never returns from an exponential comparison.
    ended = subprocess.run(
        [sys.executable, "-c", OTHER_PYDANTIC.format(names=names, refuses=refuses)],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert ended.stdout.startswith("refused: "), ended.stderr
    assert "`Stop` and `Go`" in ended.stdout


def test_the_classes_of_the_site_stay_as_they_are(site: Site):
    validator, schema = Plan.__pydantic_validator__, repr(Plan.__pydantic_core_schema__)

    @site.tool
    def search(where: Plan) -> None: ...

    assert Plan.__pydantic_validator__ is validator
    assert repr(Plan.__pydantic_core_schema__) == schema
    assert Plan.model_validate({"then": [{}]}) == Plan.model_validate({"then": [{"@step": "all"}]})


class Wire(BaseModel):
    by: Literal["wire"] = "wire"
    iban: str


class Card(BaseModel):
    by: Literal["card"] = "card"
    number: str


def test_a_tag_with_a_default_is_demanded_where_it_tells_recursive_forms_apart(site: Site):
    @site.tool
    def plan(where: Plan | Pause, pay: Wire | Card) -> str:
        return type(pay).__name__

    published = site.registry.tools["plan"].input_schema
    definitions = published["$defs"]
    assert definitions["Plan"]["required"] == ["@step"]
    assert "@step" in definitions["Pause"]["required"]
    # Their union was never refused, and takes what it took.
    assert published["properties"]["pay"]["anyOf"][0]["required"] == ["iban"]


def test_a_tag_is_read_by_its_alias(site: Site):
    """Its own name may be that of another member, or be unknown."""

    class Bank(BaseModel):
        model_config = ConfigDict(extra="ignore")
        kind: Literal["wire"] = Field(alias="type")

    class Cashless(BaseModel):
        model_config = ConfigDict(extra="ignore")
        kind: Literal["card"] = Field(alias="type")

    @site.tool
    def pay(by: Bank | Cashless) -> str:
        return by.kind

    assert site.call("pay", {"by": {"type": "card", "kind": "zzz"}}).content[0].text == "card"
    assert adapt(Bank | Cashless).validate_python(Cashless(type="card")).kind == "card"


def test_a_union_of_tagged_forms_that_is_not_recursive_takes_what_it_took(site: Site):
    class Cash(BaseModel):
        by: Literal["cash"]

    @site.tool
    def pay(by: Wire | Card | Cash, also: list[Cash | Wire] | None = None) -> str:
        return type(by).__name__

    assert site.call("pay", {"by": {"iban": "DE1"}}).content[0].text == "Wire"
    assert site.call("pay", {"by": {"by": "cash"}}).content[0].text == "Cash"


def test_tagged_forms_are_published_as_alternatives_that_every_client_reads(site: Site):
    @site.tool
    def search(where: Stop | Go, also: Expression) -> None: ...

    properties = site.registry.tools["search"].input_schema["properties"]
    assert properties["where"] == {"anyOf": [{"$ref": "#/$defs/Stop"}, {"$ref": "#/$defs/Go"}]}
    assert set(properties["also"]) == {"anyOf"}


def test_a_value_of_no_tag_names_the_tags_at_its_place(site: Site):
    @site.tool
    def search(where: list[Stop | Go | int]) -> None: ...

    handler = site.registry.tools["search"].handler
    with pytest.raises(ArgumentErrors) as found:
        bind(handler, {"where": [1, {"kind": "stop", "inner": {"kind": "x"}}]}, Ctx())

    (problem,) = [each for each in found.value.problems if "tags" in each.message]
    assert problem.pointer == "/where/1/inner"
    assert "'stop', 'go'" in problem.message


def test_a_union_that_is_not_recursive_needs_no_discriminator(site: Site):
    class Card(BaseModel):
        number: str

    class Bank(BaseModel):
        iban: str

    @site.tool
    def pay(by: Card | Bank | int, also: list[Card | Bank] | None = None) -> str:
        return type(by).__name__

    assert site.call("pay", {"by": {"iban": "DE1"}}).content[0].text == "Bank"


# The types of tests are made at run time, which a type checker cannot follow.
_LIST: Any = list
_DICT: Any = dict
_TYPED_DICT: Any = TypedDict
_NAMED_TUPLE: Any = NamedTuple
_ROOT_MODEL: Any = RootModel
_MAKE_MODEL: Any = create_model


def nest(depth: int, wrap: Callable[[Any], Any] = lambda inner: inner) -> Any:
    """Return a union of two models that hold a union of two models, and so on; none is recursive."""
    inner: Any = int
    for level in range(depth):
        models = [create_model(f"{name}{level}", x=(wrap(inner), ...)) for name in ("One", "Two")]
        inner = Union[tuple(models)]  # noqa: UP007
    return inner


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: inner,
        lambda inner: _LIST[inner],
        lambda inner: _DICT[str, inner],
        lambda inner: Optional[inner],  # noqa: UP045
        lambda inner: Annotated[inner, Field(description="text")],
        lambda inner: _TYPED_DICT("Held", {"inner": inner}),
        lambda inner: _NAMED_TUPLE("Pair", [("inner", inner)]),
        lambda inner: _ROOT_MODEL[inner],
        # The published schema does not tell.
        lambda inner: Annotated[inner, WithJsonSchema({"type": "object"})],
    ],
)
def test_unions_inside_of_each_other_that_multiply_the_work_are_rejected(
    site: Site, wrap: Callable[[Any], Any]
):
    def search(limit: int, where: Any) -> None: ...

    search.__annotations__["where"] = nest(40, wrap)
    with pytest.raises(RegistrationError) as found:
        site.register_tool(search)

    for text in ("search", "`where`", "128 forms", 'Annotated[A | B, Field(discriminator="kind")]'):
        assert text in str(found.value)


def test_a_long_chain_of_models_is_no_union():
    inner: Any = nest(6)
    for level in range(200):
        inner = _MAKE_MODEL(f"Link{level}", x=(inner, ...), more=(_LIST[inner], []))

    adapt(inner)
    with pytest.raises(AmbiguousUnion):
        adapt(inner | _MAKE_MODEL("Other", x=(inner, ...)))


def test_a_chain_of_models_that_is_too_long_to_describe_is_rejected(site: Site):
    inner: Any = int
    for level in range(100):
        inner = _MAKE_MODEL(f"Link{level}", x=(inner, ...))

    def search(where: Any) -> None: ...

    search.__annotations__["where"] = inner
    with pytest.raises(RegistrationError, match="`where` cannot be described in JSON Schema"):
        site.register_tool(search)


def test_prompts_and_templates_follow_the_same_rule(site: Site):
    def show(where: Any) -> str:
        return ""

    show.__annotations__["where"] = nest(40)
    with pytest.raises(RegistrationError, match="128 forms"):
        site.register_prompt(show)
    with pytest.raises(RegistrationError, match="128 forms"):
        site.register_resource("shop://found/{where}", show)


def test_unions_whose_forms_are_told_apart_may_be_deep(site: Site):
    """A discriminator, or the kind of the JSON value, leads to one form at each level."""
    tagged: Any = int
    by_kind: Any = int
    for level in range(8):
        models = [
            _MAKE_MODEL(f"{name}{level}", kind=(Literal[name], ...), x=(tagged, ...))
            for name in ("one", "two")
        ]
        tagged = Annotated[Union[tuple(models)], Field(discriminator="kind")]  # noqa: UP007
        by_kind = list[by_kind] | create_model(f"Held{level}", x=(by_kind, ...)) | str | None

    def search(where: Any, also: Any, few: Any) -> None: ...

    search.__annotations__ |= {"where": tagged, "also": by_kind, "few": nest(6)}
    site.register_tool(search)


def test_return_types_follow_the_same_rule(site: Site):
    def show() -> Left:
        return Left()

    with pytest.raises(RegistrationError, match=r"return type.*`Left` and `Right`"):
        site.register_tool(show)


def test_tool_results_are_converted_in_linear_time(site: Site):
    @site.tool
    def echo(where: dict[str, Any]) -> Expression:
        return where  # type: ignore[return-value]

    @site.tool
    def parsed(where: Expression) -> Expression:
        return where

    assert site.call("echo", {"where": EXPRESSION}).structured == EXPRESSION
    assert site.call("parsed", {"where": EXPRESSION}).structured == EXPRESSION


def test_variants_that_rebuild_their_value_convert_once_per_level(site: Site):
    calls = []

    class Branch(BaseModel):
        children: "list[Annotated[Every | Some, Field(discriminator='op')]]"

        @field_validator("children", mode="before")
        @classmethod
        def copy_each(cls, value: Any) -> Any:
            calls.append(value)
            return [dict(each) for each in value]

    class Every(Branch):
        op: Literal["every"]

    class Some(Branch):
        op: Literal["some"]

    tree = Annotated[Union[Every, Some], Field(discriminator="op")]  # noqa: UP007
    for each in (Every, Some):
        each.model_rebuild(_types_namespace={"Every": Every, "Some": Some})
    value: dict[str, Any] = {"op": "some", "children": []}
    for _ in range(12):
        value = {"op": "some", "children": [value]}

    def search(where: Any) -> None: ...

    search.__annotations__["where"] = tree
    site.register_tool(search)

    bind(site.registry.tools["search"].handler, {"where": value}, Ctx())

    assert len(calls) == 13
