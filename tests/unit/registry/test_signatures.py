"""Reading signatures and docstrings: what the client passes, what the server fills, what is refused."""

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Optional, TypeVar

import pytest
from django.db import transaction
from pydantic import Field
from rest_framework.decorators import (
    authentication_classes,
    permission_classes,
    throttle_classes,
    throttle_scope,
)
from rest_framework.permissions import IsAdminUser
from typing_extensions import Doc

from django_mcp.protocol.errors import ToolError
from django_mcp.registry.decorators import Registration
from django_mcp.registry.problems import RegistrationError, describe_source
from django_mcp.registry.signatures import (
    EMPTY,
    Unavailable,
    find_provider,
    read_docs,
    read_signature,
)
from django_mcp.server.memory import NoValidators
from tests.support.registry import Ctx, HttpRequest, Site, User

# Under names of their own, so that the older spellings are tested as well.
Maybe: Any = Optional

if TYPE_CHECKING:
    from decimal import Decimal


def read(function: Any) -> Any:
    return read_signature(function, lambda annotation: None, NoValidators())


def names(function: Any) -> list[str]:
    return [parameter.name for parameter in read(function).parameters]


def only(function: Any) -> Any:
    (parameter,) = read(function).parameters
    return parameter


def find(query: str, limit: int = 20) -> list[str]:
    """Find things."""
    return [query] * limit


def test_parameters_keep_order_hints_and_defaults():
    query, limit = read(find).parameters

    assert (query.name, query.annotation, query.is_required) == ("query", str, True)
    assert (limit.name, limit.annotation, limit.default) == ("limit", int, 20)
    assert not limit.is_required


def test_the_source_is_the_location_of_a_function():
    line = find.__code__.co_firstlineno

    assert read(find).source == f"{__name__}.find ({__file__}:{line})"
    assert describe_source(functools.partial(find, "x")) == read(find).source


def test_the_source_of_an_object_is_its_class():
    class Finder:
        def __call__(self) -> None: ...

    assert "Finder" in describe_source(Finder())


def test_an_unannotated_parameter_takes_any_json_value():
    assert only(lambda value: value).annotation is Any


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (lambda ctx, sku: None, "ctx: Context"),
        (lambda sku, context: None, "context: Context"),
        (lambda request: None, "request: HttpRequest"),
    ],
)
def test_an_unannotated_context_is_rejected_with_a_hint(function: Any, written: str):
    with pytest.raises(RegistrationError, match=f"Write `{written}` to get it from the server"):
        read(function)


def test_a_missing_return_annotation_is_unknown():
    assert read(lambda: None).returns is EMPTY


def test_a_type_checking_only_name_is_rejected_with_a_hint():
    def pay(amount: "Decimal") -> None: ...

    with pytest.raises(RegistrationError) as refusal:
        read(pay)

    assert "test_signatures" in str(refusal.value)
    assert "'Decimal'" in str(refusal.value)
    assert "TYPE_CHECKING" in str(refusal.value)


def test_the_label_of_a_model_is_rejected_with_a_hint():
    def greet(user: "accounts.Member") -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(RegistrationError) as refusal:
        read(greet)

    assert "the annotation 'accounts.Member' is a text" in str(refusal.value)
    assert "get_user_model()" in str(refusal.value)


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (find, "the function `find` is no type. Write the type, or call the function"),
        (list[find], "the function `find` is no type"),  # type: ignore[valid-type]
        (any, "the function `any` is no type"),
        ([str], r"\[<class 'str'>\] is no type. Write one such as list\[str\]"),
        ((int, str), "is no type. Write one such as"),
        (Literal[[("novel", "Novel")]], "a Literal has plain values"),
        (Literal["a", 1.5] | None, "and 1.5 is none"),
    ],
)
def test_an_annotation_that_is_no_type_is_rejected(annotation: Any, problem: str):
    def handle(value: Any) -> None: ...

    handle.__annotations__["value"] = annotation
    with pytest.raises(RegistrationError, match=f"the parameter `value`: .*{problem}"):
        read(handle)

    handle.__annotations__ = {"value": str, "return": annotation}
    with pytest.raises(RegistrationError, match=f"the return annotation: .*{problem}"):
        read(handle)


def test_a_decorator_that_needs_a_request_is_rejected():
    def login_required(view: Any) -> Any:
        @functools.wraps(view)
        def inner(request: Any, *args: Any, **kwargs: Any) -> Any:
            return view(request, *args, **kwargs)

        return inner

    with pytest.raises(RegistrationError, match="a decorator of it needs `request`"):
        read(login_required(find))


@pytest.mark.parametrize(
    "decorator",
    [
        permission_classes([IsAdminUser]),
        authentication_classes([]),
        throttle_classes([]),
        throttle_scope("x"),
    ],
)
def test_a_decorator_that_guards_only_views_is_rejected(decorator: Any):
    def find() -> str:
        return "everything"

    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return inner

    for guarded in (decorator(find), logged(decorator(find))):
        with pytest.raises(RegistrationError, match="of REST framework guards views"):
            read(guarded)


def test_a_decorator_that_passes_its_arguments_on_is_accepted():
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def inner(query: str, *args: Any, verbose: bool = False, **kwargs: Any) -> Any:
            return function(query, *args, **kwargs)

        return inner

    assert names(logged(find)) == ["query", "limit"]


def test_a_hint_that_is_not_a_type_is_rejected():
    def pay(amount: int) -> None: ...

    pay.__annotations__["amount"] = "1 +"

    with pytest.raises(RegistrationError, match="annotations cannot be read"):
        read(pay)


def test_hints_may_name_closure_variables():
    class Local: ...

    def handle(value: "Local") -> None:
        _ = Local

    assert only(handle).annotation is Local


def test_unassigned_closure_variables_are_skipped():
    def handle(value: int) -> None:
        _ = later

    assert only(handle).annotation is int
    later = 1


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (lambda *args: None, r"\*args"),
        (lambda **kwargs: None, r"\*\*kwargs"),
        (lambda a, /: None, "a, /"),
    ],
)
def test_parameters_a_client_cannot_name_are_rejected(function: Any, written: str):
    with pytest.raises(RegistrationError, match=f"`{written}` cannot be named by a client"):
        read(function)


def counted(function: Any) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize("decorator", [functools.cache, functools.lru_cache(maxsize=2)])
def test_a_cache_around_a_function_has_its_parameters(decorator: Any):
    @decorator
    def count(amount: int = 1) -> int:
        """Count."""
        return amount

    site = Site()
    site.tool(count)

    assert list(site.registry.tools["count"].input_schema["properties"]) == ["amount"]
    assert site.call("count", {"amount": 3}).structured == 3


def test_a_cache_around_an_asynchronous_function_is_refused():
    @functools.cache
    async def count() -> int:
        """Count."""
        return 1

    with pytest.raises(RegistrationError, match="asynchronous inside of a synchronous decorator"):
        Site().tool(count)


def test_a_decorator_that_hides_the_parameters_is_suspected():
    def find(query: str) -> str:
        return query

    advice = r"If it stands for .*\.find, write @functools\.wraps\(\.\.\.\) above `def wrapper` in the decorator"
    with pytest.raises(RegistrationError, match=advice):
        read(counted(find))

    with pytest.raises(
        RegistrationError, match=r"Write out each argument as an ordinary parameter\.$"
    ):
        read(lambda *args: None)


def test_a_class_is_rejected_as_a_handler():
    with pytest.raises(RegistrationError, match="a class is not a handler"):
        read(dict)


def test_a_builtin_without_a_signature_is_rejected():
    with pytest.raises(RegistrationError, match="Wrap it in a plain function"):
        read(max)


def test_an_unbound_method_is_rejected():
    class Orders:
        def find(self, query: str) -> None: ...

    with pytest.raises(RegistrationError, match="bound method"):
        read(Orders.find)


def test_bound_methods_class_methods_and_objects_are_handlers():
    class Orders:
        def find(self, query: str) -> None: ...

        @classmethod
        def count(cls, since: int) -> None: ...

        @staticmethod
        def ping(word: str) -> None: ...

        def __call__(self, pk: int) -> None: ...

    assert names(Orders().find) == ["query"]
    assert names(Orders.count) == ["since"]
    assert names(Orders.ping) == ["word"]
    assert names(Orders()) == ["pk"]
    assert only(Orders()).annotation is int


def test_clients_cannot_change_arguments_fixed_by_a_partial():
    def find_of(tenant: str, query: str, limit: int = 20) -> None: ...

    assert names(functools.partial(find_of, "acme")) == ["query", "limit"]
    assert names(functools.partial(find_of, query="x")) == ["tenant", "limit"]


def test_a_non_callable_is_rejected():
    with pytest.raises(RegistrationError, match="signature cannot be read"):
        read(5)
    with pytest.raises(RegistrationError, match="'find' is no function"):
        read("find")


def test_a_decorated_function_has_the_signature_of_the_inner_one():
    @functools.wraps(find)
    def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    assert names(wrapper) == ["query", "limit"]


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[int, "How many."],
        Annotated[int, Doc("How many.")],
        Annotated[int, Field(description="How many.")],
        Maybe[Annotated[int, "How many."]],
        Annotated[int, Field(description="Not this."), "How many."],
    ],
)
def test_descriptions_come_from_the_hint(annotation: Any):
    def handle(limit) -> None:
        """Handle.

        Args:
            limit: Not from here.
        """

    handle.__annotations__["limit"] = annotation

    assert only(handle).description == "How many."


def test_a_pydantic_field_may_be_the_default():
    def handle(limit: int = Field(20, ge=1, title="Limit")) -> None: ...

    parameter = only(handle)

    assert not parameter.is_required
    assert parameter.title == "Limit"
    assert parameter.default is EMPTY


def test_a_pydantic_field_without_a_default_is_required():
    def handle(limit: int = Field(ge=1)) -> None: ...

    assert only(handle).is_required


def test_an_alias_is_rejected():
    def handle(limit: Annotated[int, Field(alias="max")]) -> None: ...

    with pytest.raises(RegistrationError, match="has an alias"):
        read(handle)


def google(query, limit):
    """Search orders.

    Newest first:
    at most 100.

    Args:
        query (str): What to
            look for.
        limit (int, optional): How many. Defaults to 3.

    Returns:
        list: Orders.

    Raises:
        ValueError: Never.
    """


def numpy(query, limit):
    """Search orders.

    Newest first:
    at most 100.

    Parameters
    ----------
    query : str
        What to
        look for.
    limit : int, optional
        How many. Defaults to 3.

    Returns
    -------
    list
        Orders.
    """


def sphinx(query, limit):
    """Search orders.

    Newest first:
    at most 100.

    :param str query: What to
        look for.
    :param limit: How many. Defaults to 3.
    :type limit: int
    :returns: Orders.
    :raises ValueError: Never.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_the_description_excludes_signature_sections(function):
    assert read_docs(function)[0] == "Search orders.\n\nNewest first:\nat most 100."


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_parameters_are_described(function):
    assert read_docs(function)[1] == {
        "query": "What to look for.",
        "limit": "How many. Defaults to 3.",
    }


def test_a_plain_docstring_is_the_description():
    def plain():
        """One line
        and another.
        """

    assert read_docs(plain)[0] == "One line\nand another."


def test_no_docstring_is_no_description():
    assert read_docs(lambda: None)[0] is None


def test_an_empty_docstring_is_no_description():
    def empty():
        """ """

    assert read_docs(empty)[0] is None


def test_examples_and_notes_stay_with_the_description():
    def noted(x):
        """Do it.

        Parameters
        ----------
        x : int
            A number.

        Notes
        -----
        Be careful.

        Examples
        --------
        >>> noted(1)
        """

    assert read_docs(noted)[0] == "Do it.\n\nNotes:\nBe careful.\n\nExamples:\n>>> noted(1)"


def test_a_partial_has_the_docstring_of_its_function():
    assert read_docs(functools.partial(google, "x")) == read_docs(google)


def test_an_object_is_described_by_its_call_or_else_by_its_class():
    class Both:
        """The class."""

        def __call__(self):
            """The call."""

    class Silent:
        """The class."""

        def __call__(self): ...

    assert read_docs(Both())[0] == "The call."
    assert read_docs(Silent())[0] == "The class."


T = TypeVar("T")


class Typed(Generic[T]): ...


def test_injected_parameters_are_hidden_from_the_schema(site: Site):
    @site.tool
    def whoami(ctx: Ctx, user: User, polite: bool = True) -> str:
        return f"{user} {polite} {ctx.user}"

    assert list(site.tool_input_schema("whoami")["properties"]) == ["polite"]
    assert site.call("whoami", ctx=Ctx(user="ann")).content[0].text == "ann True ann"


def test_a_client_cannot_pass_injected_parameters(site: Site):
    @site.tool
    def whoami(user: User) -> str:
        return user

    problems = site.registry.tools["whoami"].input_validator.problems({"user": "root"})

    assert [problem.pointer for problem in problems] == ["/user"]


@pytest.mark.parametrize(
    "annotation",
    [User, Annotated[User, "The user."], Maybe[User], User | None, Annotated[User | None, "x"]],
)
def test_wrapped_types_are_unwrapped(site: Site, annotation):
    provide = find_provider(annotation, site._find_provider)

    assert provide is not None
    assert provide(Ctx(user="ann")) == "ann"


def test_a_union_is_injected_when_each_part_is(site: Site):
    assert find_provider(User | Ctx, site._find_provider) is not None
    assert find_provider(User | int, site._find_provider) is None


def test_a_server_may_inject_a_union_type():
    asked = []

    def injectables(annotation):
        asked.append(annotation)
        return (lambda ctx: 1) if annotation == User | None else None

    assert find_provider(User | None, injectables) is not None
    assert asked == [User | None]


def test_a_generic_type_is_matched_by_its_origin():
    def injectables(annotation):
        return (lambda ctx: 1) if annotation is Typed else None

    assert find_provider(Typed[int], injectables) is not None


def test_a_missing_value_is_none_if_optional(site: Site):
    provide = find_provider(HttpRequest | None, site._find_provider)

    assert provide is not None
    assert provide(Ctx(request=None)) is None


def test_a_missing_required_value_rejects_the_call(site: Site):
    provide = find_provider(HttpRequest, site._find_provider)

    assert provide is not None
    with pytest.raises(Unavailable, match="needs a HttpRequest, which this connection does not"):
        provide(Ctx(request=None))


def test_a_server_need_not_inject_anything():
    assert Registration()._find_provider(User) is None


def test_the_rejection_may_be_a_tool_error():
    assert issubclass(Unavailable, ToolError)


def test_a_provider_may_report_a_missing_value():
    def provider(ctx):
        raise Unavailable("no")

    optional = find_provider(User | None, lambda a: provider if a is User else None)
    required = find_provider(User, lambda a: provider if a is User else None)

    assert optional is not None
    assert optional(None) is None
    assert required is not None
    with pytest.raises(Unavailable):
        required(None)


class Ended(contextlib.ContextDecorator):
    def __enter__(self) -> None: ...

    def __exit__(self, *_given: object) -> None: ...


def passing(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def running(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return call


def awaiting(function: Any) -> Any:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return call


async def afind(query: str) -> str:
    return query


@pytest.mark.parametrize(
    "decorate",
    [
        transaction.atomic,
        transaction.atomic(),
        Ended(),
        passing,
        lambda function: passing(transaction.atomic(function)),
    ],
)
def test_a_coroutine_inside_of_a_synchronous_decorator_is_refused(decorate: Any):
    with pytest.raises(RegistrationError, match=r"afind .* inside of a synchronous decorator"):
        Site().register_tool(decorate(afind), name="t")

    Site().register_tool(decorate(find), name="t")


@pytest.mark.parametrize("decorate", [running, awaiting])
def test_a_decorator_that_awaits_is_taken(decorate: Any):
    assert Site().register_tool(decorate(afind), name="t").handler.is_async is (
        decorate is awaiting
    )
