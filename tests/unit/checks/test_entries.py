"""What `manage.py check` reports about the functions of a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import partial
from typing import Annotated, Any, TypeVar

import pytest
from asgiref.sync import sync_to_async
from celery import shared_task
from django.contrib.auth.decorators import login_required
from django.core.checks import INFO, CheckMessage, run_checks
from django.db import transaction
from django.db.models import QuerySet
from django.http import JsonResponse
from django.test import override_settings
from django.utils import timezone
from pydantic import BaseModel, Field
from rest_framework.decorators import permission_classes
from rest_framework.permissions import IsAdminUser

from django_mcp import Context
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.models import HealthAlert
from django_mcp.servers import MCPServer
from django_mcp.signals import alert_began, session_opened, tool_called
from example_project.shop.models import Order

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


F = TypeVar("F", bound=Callable[..., Any])


class OrderOut(BaseModel):
    number: str


def found(server: MCPServer, id_: str) -> list[CheckMessage]:
    messages = run_checks(tags=["django_mcp"])
    sources = [tool.source for tool in server.registry.tools.values()]
    sources += [each.source for each in server.registry.resources.values()]
    sources += [each.source for each in server.registry.templates.values()]
    sources += [each.source for each in server.registry.prompts.values()]
    return [
        each
        for each in messages
        if each.id == f"django_mcp.{id_}" and any(each.msg.startswith(one) for one in sources)
    ]


def one() -> Order:
    """Return one."""
    return Order()


def some() -> list[Order] | None:
    """Return some."""
    return None


async def page() -> dict[str, list[Order]]:
    """Return a page."""
    return {}


@pytest.mark.parametrize("function", [one, some, page])
def test_a_returned_model_needs_declared_fields(function: Callable[..., Any]):
    server = MCPServer("models")
    server.tool(function)

    (message,) = found(server, "E014")

    assert "returns Order, and nothing names the fields to publish." in message.msg
    assert "dataclass, a TypedDict or a pydantic model, as in -> list[OrderOut]" in str(
        message.hint
    )


def newest() -> Order:
    """Return the newest."""
    return Order()


def test_a_resource_also_needs_declared_fields():
    server = MCPServer("models")
    server.resource("orders://newest")(newest)

    assert len(found(server, "E014")) == 1


def rows() -> QuerySet[Order]:
    """Return rows, whose type tells nothing at run time."""
    return Order.objects.all()


def bare_rows() -> QuerySet:
    """Return rows."""
    return Order.objects.all()


@pytest.mark.parametrize("function", [rows, bare_rows])
def test_a_returned_queryset_needs_declared_fields(function: Callable[..., Any]):
    server = MCPServer("querysets")
    server.tool(function)

    (message,) = found(server, "E014")

    assert "returns QuerySet, and nothing names the fields to publish." in message.msg
    assert "as in -> list[RowOut] or @tool(returns=list[RowOut]); the function" in str(message.hint)


def named() -> list[OrderOut]:
    """Return what is named."""
    return []


def free() -> Any:
    """Return anything."""


@pytest.mark.parametrize("function", [named, free])
def test_declared_fields_pass_the_checks(function: Callable[..., Any]):
    server = MCPServer("models")
    server.tool(function)

    assert found(server, "E014") == []


@pytest.mark.parametrize(
    "options", [{"returns": list[OrderOut]}, {"output_schema": list[OrderOut]}]
)
def test_fields_that_an_option_declares_pass_the_checks(options: dict[str, Any]):
    def shaped() -> QuerySet[Order]:
        """Return rows."""
        return Order.objects.all()

    server = MCPServer("models")
    server.tool(**options)(shaped)

    assert found(server, "E014") == []


def test_a_model_that_an_option_declares_does_not():
    server = MCPServer("models")

    @server.tool(returns=list[Order])
    def unshaped() -> Any:
        """Return anything."""

    assert len(found(server, "E014")) == 1


def silent() -> str:
    return "x"


def test_a_tool_without_a_description_is_named():
    server = MCPServer("silent")
    server.tool(silent)
    server.tool(name="told", description="Say nothing.")(silent)

    (message,) = found(server, "I007")

    assert message.level == INFO
    assert message.msg.startswith("tests.unit.checks.test_entries.silent (")
    assert message.msg.endswith("has no description, so models do not know when to call silent.")
    assert message.hint == "Write a docstring, or description='...'."


def test_a_long_list_of_generated_tools_is_named(db: None):
    long, compact = MCPServer("long-list"), MCPServer("compact-list")
    for number in range(8):
        admin_tools(server=long, models="__all__", prefix=f"{number}_")
    admin_tools(server=compact, models="__all__", style="compact")

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I011"]

    (message,) = [each for each in messages if "-list'" in each.msg]
    assert "of generated tools of the server 'long-list'" in message.msg
    assert "style='compact'" in str(message.hint)


def bare(a, b: Any, c: int = 1, d=2):
    """Take anything."""


def bare_with_docs(a):
    """Take anything.

    Args:
        a: whatever it is.
    """


def test_a_parameter_without_an_annotation_is_named():
    server = MCPServer("bare")
    server.tool(bare)
    server.tool(bare_with_docs)

    first, second, third = found(server, "I008")

    assert first.level == INFO
    assert first.msg.endswith(
        ": the parameter `a` has no annotation, so clients may send anything."
    )
    assert "`d`" in second.msg
    assert "bare_with_docs" in third.msg
    assert first.hint == "Annotate it, as in a: str."
    assert second.hint == "Annotate it, as in d: int."


def test_a_parameter_of_a_prompt_that_is_a_text_beside_another_default_is_named():
    server = MCPServer("bare prompts")

    @server.prompt
    def remind(customer, urgent=False, tone="kind", count: int = 5, more=None) -> str:
        """Write a reminder."""
        return ""

    (message,) = found(server, "I008")

    assert message.level == INFO
    assert (
        ": the parameter `urgent` has no annotation, so it is the text that a client "
        in message.msg
    )
    assert message.hint == "Annotate it, as in urgent: bool."


def typed_by_schema(a):
    """Take an integer."""


def test_a_schema_of_its_own_says_what_a_parameter_is():
    server = MCPServer("bare")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    server.register_tool(typed_by_schema, input_schema=schema)

    assert found(server, "I008") == []


def find_books(title: str, *, limit: int = 5) -> str:
    """Find books.

    Args:
        titel: what they are called.
        limit: how many.
        server: what nobody sends.
    """
    return title


def test_tools_that_are_named_as_those_that_read_and_do_not_say_so_are_reported():
    server = MCPServer("hints")
    for name in ("find_books", "list", "getaway", "refund"):
        server.tool(name=name)(lambda: "")
    server.tool(name="get_book", read_only=True)(lambda: "")
    server.tool(name="get_and_mark", destructive=False)(lambda: "")

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I015"]
    [message] = [each for each in messages if "'hints'" in each.msg]

    assert message.level == INFO
    assert message.msg.startswith("find_books, list of the server 'hints' may delete data")


def test_a_docstring_that_describes_another_parameter_is_reported():
    server = MCPServer("docs")
    server.register_tool(find_books)
    server.register_prompt(find_books)
    server.register_resource("book://{title}{?limit}", find_books)

    messages = found(server, "I010")

    assert len(messages) == 6
    for near, far in zip(messages[::2], messages[1::2], strict=True):
        assert near.level == INFO
        assert near.msg.endswith(": its docstring describes `titel`, which is no parameter of it.")
        assert near.hint == "Correct the name. Did you mean 'title'?"
        assert "`server`" in far.msg
        assert far.hint == "Correct the name."


def described(ctx: Context, a: int, b: int = 1) -> str:
    """Do.

    Parameters
    ----------
    ctx : Context
        of the call.
    a, b : int
        numbers.

    Raises
    ------
    ValueError
        never.
    """
    return ""


def described_in_one(arguments: dict[str, Any]) -> str:
    """Do.

    :param arguments: all of them.
    :param size: in litres.
    :raises ValueError: never.
    """
    return ""


def with_attributes(a: int) -> str:
    """Do.

    Attributes:
        b: is of something else.
    """
    return ""


def test_a_docstring_that_describes_what_there_is_passes():
    server = MCPServer("docs")
    server.tool(described)
    server.tool(with_attributes)
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    server.register_tool(described_in_one, input_schema=schema)

    assert found(server, "I010") == []
    properties = server.tool_input_schema("described")["properties"]
    assert {name: each["description"] for name, each in properties.items()} == {
        "a": "numbers.",
        "b": "numbers.",
    }


@pytest.mark.filterwarnings("ignore:Using extra keyword arguments")
@pytest.mark.parametrize(
    ("option", "meant", "value"),
    [
        ("descripton", "description", "What."),
        ("min_lenght", "min_length", 3),
        ("maxLenght", "maxLength", 3),
    ],
)
def test_a_misspelled_option_of_a_field_is_reported(option: str, meant: str, value: Any):
    field: Any = Field(**{option: value})

    class Inner(BaseModel):
        name: str = field

    def find(name: str = field, inner: Any = None) -> str:
        """Find."""
        return ""

    find.__annotations__["inner"] = Inner
    server = MCPServer("fields")
    server.tool(find)

    # The servers of the other cases may still be there.
    messages = [each for each in found(server, "W022") if repr(option) in each.msg]

    assert [each.msg.partition("schema has ")[2] for each in messages] == [
        f"the keyword {option!r} at /properties/name, which clients do not know.",
        f"the keyword {option!r} at /$defs/Inner/properties/name, which clients do not know.",
    ]
    assert all(str(each.hint).startswith(f"Did you mean {meant!r}?") for each in messages)


def test_keywords_that_are_like_no_other_pass():
    extra: dict[str, Any] = {"x-order": 1, "widget": "slider", "example": "a", "minLength": 1}

    def find(name: str = Field(json_schema_extra=extra, examples=["a"])) -> str:
        """Find."""
        return ""

    server = MCPServer("fields")
    server.tool(find)

    assert found(server, "W022") == []


def run_outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another, without saying so."""

    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


registered: list[Callable[..., Any]] = []


def register(function: F) -> F:
    """Stand for `@tool`: the server is made by the test, since all servers that live are checked."""
    registered.append(function)
    return function


@login_required  # type: ignore[type-var]
@register
def guarded(text: str) -> str:
    """Answer whoever is signed in, as the author believes."""
    return text


@transaction.atomic
@register
def stored() -> str:
    """Answer."""
    return ""


@sync_to_async
@register
def later() -> str:
    """Answer."""
    return ""


@shared_task
@register
def queued() -> str:
    """Answer."""
    return ""


@register
@shared_task
def queued_below() -> str:
    """Answer."""
    return ""


@run_outside
@register
def unnamed() -> str:
    """Answer."""
    return ""


@permission_classes([IsAdminUser])
@register
def classed() -> str:
    """Answer."""
    return ""


class Grouped:
    @staticmethod
    @register
    def plain() -> str:
        """Answer."""
        return ""


@register
@transaction.atomic
def below() -> str:
    """Answer."""
    return ""


def test_a_decorator_above_that_of_mcp_is_reported():
    server = MCPServer("outer")
    for function in registered:
        guards = vars(function).pop("permission_classes", None)
        server.tool(function)
        if guards is not None:
            permission_classes(guards)(function)

    messages = found(server, "W025")
    reported = [message.msg.split(" ")[0].rpartition(".")[2] for message in messages]

    assert sorted(reported) == ["classed", "guarded", "later", "queued", "stored", "unnamed"]
    assert all("such as @shared_task, queues no calls" in str(message.hint) for message in messages)


class Guard:
    """Refuses some users, as the author believes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.guarded = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.guarded(*args, **kwargs)


class Several:
    __slots__ = ("steps",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.steps = {"last": function}

    def __call__(self) -> Any:
        return self.steps["last"]()


class Stored:
    """Keeps a function, and cannot be called itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


inside: list[Callable[..., Any]] = []


def keep(function: F) -> F:
    """Stand for `@tool`, as `register` does."""
    inside.append(function)
    return function


@Guard
@keep
def of_instance() -> str:
    """Answer."""
    return ""


@Several
@keep
def of_slots() -> str:
    """Answer."""
    return ""


@Stored
@keep
def of_what_is_not_called() -> str:
    """Answer."""
    return ""


@partial(partial, run_outside)
@keep
def of_partial() -> str:
    """Answer."""
    return ""


def test_security_objects_in_place_of_a_function_are_reported():
    server = MCPServer("objects")
    for function in inside:
        server.tool(function)
        server.resource(f"objects://{function.__name__}")(function)
        server.prompt(function)

    messages = found(server, "W025")

    reported = Counter(message.msg.split(" ")[0].rpartition(".")[2] for message in messages)
    names = ["of_instance", "of_partial", "of_slots", "of_what_is_not_called"]
    assert reported == dict.fromkeys(names, 3)


def forgets(text: str) -> str:  # type: ignore[return]
    """Forget to return."""
    text.upper()


def returns_none() -> None:
    """Do something."""


def may_return_none() -> str | None:
    """Do something."""


def untyped():
    """Do something."""


def only_raises() -> str:
    """Refuse."""
    raise LookupError


def test_a_function_that_never_returns_its_value_is_reported():
    server = MCPServer("silent")
    for function in (forgets, returns_none, may_return_none, untyped, only_raises):
        server.tool(function)
    server.resource("silent://a")(untyped)
    server.prompt(untyped)

    messages = found(server, "W026")

    names = [message.msg.split(" ")[0].rpartition(".")[2] for message in messages]
    assert names == ["forgets", "untyped", "untyped"]
    assert "or `-> None` if that is nothing" in str(messages[0].hint)


def test_a_template_behind_one_of_the_same_form_is_reported():
    server = MCPServer("templates")
    server.resource("shelf://{first}", name="first")(lambda first: first)
    server.resource("shelf://{second}", name="second")(lambda second: second)
    server.resource("staff://{first}", name="a", permission=lambda user: user.is_staff)(
        lambda first: first
    )
    server.resource("staff://{second}", name="b")(lambda second: second)
    server.resource("shelf://{first}/{second}", name="c")(lambda first, second: first)

    (message,) = found(server, "W027")

    assert "'shelf://{second}' is never read, because 'shelf://{first}' of" in message.msg


@pytest.mark.parametrize(
    ("first", "later", "is_hidden"),
    [
        ("note://{+id}", "note://{id}/notes", True),
        ("note://{+id}/notes", "note://{id}", False),
        ("note://{id}/notes", "note://{+id}", False),
        ("note://{id}", "note://new-{id}", True),
        ("note://{id}", "note://{id}/notes", False),
        ("note://a/{id}", "note://{id}/{b}", False),
        ("note://a{/id*}", "note://a/{id}/{b}", True),
        ("note://a/{id}", "note://a{/id*}", False),
        ("note://{+id}", "other://{id}", False),
        ("note://{id}", "note://{id}{?page}", False),
        ("note://{id}{?page}", "note://{b}", True),
    ],
)
def test_a_template_behind_one_that_takes_all_of_it_is_reported(
    first: str, later: str, is_hidden: bool
):
    server = MCPServer("taken")
    server.resource(first, name="first")(_make_reader(first))
    server.resource(later, name="later")(_make_reader(later))

    text = f"{later!r} is never read, because {first!r} of"
    assert any(text in each.msg for each in found(server, "W027")) == is_hidden


def _make_reader(template: str) -> Any:
    """Return a function with the variables of a template, which all of these have among them."""
    if "{b}" in template and "{id}" in template:
        return lambda id, b: [id, b]
    if "page" in template:
        return lambda id, page="": [id, page]
    if "*}" in template:

        def read_list(id: list[str]) -> str:
            return id[0]

        return read_list
    return (lambda b: b) if "{b}" in template else (lambda id: id)


def test_the_caller_is_suggested_for_a_parameter_user():
    server = MCPServer("user")

    @server.tool
    def greet(user):
        """Greet."""
        return user

    (message,) = found(server, "I008")

    assert str(message.hint).startswith(
        "Write user: User, with your user model, to get the caller."
    )


def test_a_completer_that_never_returns_a_value_is_reported():
    server = MCPServer("completer")

    @server.prompt
    def write(topic: str) -> str:
        return topic

    @server.completion(write, "topic")
    def complete(value: str) -> list[str]:  # type: ignore[return]
        value.upper()

    hints = [
        message.hint
        for message in run_checks(tags=["django_mcp"])
        if message.msg.startswith(__name__)
    ]

    assert "Return a list of strings." in hints


def test_a_response_of_http_is_no_result():
    server = MCPServer("responses")

    def respond() -> JsonResponse:
        """Respond."""
        return JsonResponse({})

    server.register_tool(respond)

    (message,) = found(server, "W030")

    assert "returns JsonResponse" in message.msg


def test_a_constraint_that_is_not_for_its_type_is_reported():
    server = MCPServer("constraints")

    @server.tool
    def find(
        text: Annotated[str, Field(le=5)],
        count: Annotated[int, Field(max_length=5)],
        names: Annotated[list[str], Field(max_length=5)],
        many: Annotated[int, Field(ge=1, le=5)],
    ) -> str:
        """Find."""
        return text

    messages = [message.msg.partition("its schema has ")[2] for message in found(server, "W022")]

    assert messages == [
        "the keyword 'le' at /properties/text, which is not for the type there.",
        "the keyword 'maxLength' at /properties/count, which is not for the type there.",
    ]


def at_start(at: datetime = timezone.now()) -> str:  # noqa: B008
    """Say when."""
    return str(at)


def today(day: date = timezone.localdate()) -> str:  # noqa: B008
    """Say which day."""
    return str(day)


def long_ago(at: datetime = datetime(2020, 1, 1, tzinfo=UTC)) -> str:
    """Say when."""
    return str(at)


def test_a_default_that_is_the_present_time_is_reported():
    server = MCPServer("defaults")
    for function in (at_start, today, long_ago):
        server.tool(read_only=True)(function)

    messages = found(server, "W031")

    assert [each.msg.split(" is the time")[0].rpartition(" ")[2] for each in messages] == [
        "`at`",
        "`day`",
    ]
    assert "Write at: datetime | None = None" in str(messages[0].hint)


def either(limit: int or None, text: str = "") -> str:  # type: ignore[valid-type]
    """Return either."""
    return text


def one_of(limit: int | None, text: str = "a" or "b") -> str:  # noqa: SIM222
    """Return one of them."""
    return text


def test_types_that_are_joined_by_or_are_reported():
    server = MCPServer("alternatives")
    for function in (either, one_of):
        server.tool(read_only=True)(function)
    server.register_tool(lambda limit: "", name="short")

    messages = found(server, "W032")

    assert ["`int or None`" in each.msg for each in messages] == [True]
    assert messages[0].hint == "Write alternatives as int | None."


def test_arguments_to_record_are_reported_where_no_calls_are_recorded():
    server = MCPServer("recorded", public=True)

    @server.tool(record_arguments=True)
    def greet(name: str) -> str:
        """Greet."""
        return name

    @server.tool(record_arguments=True)
    def order(number: str) -> str:
        """Order."""
        return number

    @server.tool
    def forget(name: str) -> str:
        """Forget."""
        return name

    def told() -> list[CheckMessage]:
        found = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.I012"]
        return [each for each in found if "'recorded'" in each.msg]

    (message,) = told()

    assert message.level == INFO
    assert "greet, order" in message.msg
    assert "forget" not in message.msg
    assert "RECORD_CALLS" in str(message.hint)
    with override_settings(DJANGO_MCP={"RECORD_CALLS": 0.1}):
        assert told() == []

    def note(**_call: Any) -> None:
        """Receive the arguments in place of a record."""

    tool_called.connect(note)
    try:
        assert told() == []
    finally:
        tool_called.disconnect(note)


def test_a_receiver_of_a_sender_that_is_no_server_is_reported():
    server = MCPServer("signals", public=True)

    def log_call(sender: Any, **_values: Any) -> None:
        """Log a call."""

    def told() -> list[str]:
        messages = run_checks(tags=["django_mcp"])
        return [each.msg for each in messages if each.id == "django_mcp.W043"]

    for wrong in ("signals", MCPServer):
        session_opened.connect(log_call, sender=wrong)
        try:
            (message,) = told()
        finally:
            session_opened.disconnect(log_call, sender=wrong)
        assert "log_call" in message
        assert "never runs: it receives session_opened of a sender that is no server" in message
    for right in (server, None):
        session_opened.connect(log_call, sender=right)
        try:
            assert told() == []
        finally:
            session_opened.disconnect(log_call, sender=right)


def test_a_receiver_of_alerts_waits_for_their_table():
    server = MCPServer("signals", public=True)

    def page(sender: Any, **_values: Any) -> None:
        """Page somebody."""

    for sender, is_wrong in ((server, True), (HealthAlert, False), (None, False)):
        alert_began.connect(page, sender=sender)
        try:
            messages = run_checks(tags=["django_mcp"])
        finally:
            alert_began.disconnect(page, sender=sender)
        told = [each.msg for each in messages if each.id == "django_mcp.W043"]
        assert len(told) == is_wrong
        assert all("alert_began of a sender that is not HealthAlert" in each for each in told)


def test_a_timeout_of_more_than_an_hour_is_told():
    server = MCPServer("patient", call_timeout_s=30_000)
    for name, timeout in (("slow", 90_000), ("long", 3600)):
        server.tool(name=name, timeout=timeout)(lambda: "")
    MCPServer("hasty", call_timeout_s=None).tool(name="fast", timeout=30)(lambda: "")

    messages = [
        each
        for each in run_checks(tags=["django_mcp"])
        if each.id == "django_mcp.I023" and ("'patient'" in each.msg or "'hasty'" in each.msg)
    ]

    (message,) = messages
    assert message.msg.endswith("an hour: slow 90000 s, others 30000 s, by CALL_TIMEOUT.")
