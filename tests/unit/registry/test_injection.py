"""What the server fills in is found by its type and hidden from the client."""

from typing import Annotated, Any, Generic, Optional, TypeVar

import pytest

from django_mcp.protocol.errors import ToolError
from django_mcp.registry.decorators import Registration
from django_mcp.registry.injection import Unavailable, find_provider
from tests.support.registry_site import Ctx, HttpRequest, Site, User

# Under names of their own, so that the older spellings are tested as well.
Maybe: Any = Optional

T = TypeVar("T")


class Typed(Generic[T]): ...


def test_what_is_injected_is_hidden_from_the_schema(site: Site):
    @site.tool
    def whoami(ctx: Ctx, user: User, polite: bool = True) -> str:
        return f"{user} {polite} {ctx.user}"

    assert list(site.tool_input_schema("whoami")["properties"]) == ["polite"]
    assert site.call("whoami", ctx=Ctx(user="ann")).content[0].text == "ann True ann"


def test_a_client_cannot_pass_what_is_injected(site: Site):
    @site.tool
    def whoami(user: User) -> str:
        return user

    problems = site.registry.tools["whoami"].input_validator.problems({"user": "root"})

    assert [problem.pointer for problem in problems] == ["/user"]


@pytest.mark.parametrize(
    "annotation",
    [User, Annotated[User, "The user."], Maybe[User], User | None, Annotated[User | None, "x"]],
)
def test_wrappings_of_a_type_are_seen_through(site: Site, annotation):
    provide = find_provider(annotation, site._injectables)

    assert provide is not None
    assert provide(Ctx(user="ann")) == "ann"


def test_a_union_is_injected_when_each_part_is(site: Site):
    assert find_provider(User | Ctx, site._injectables) is not None
    assert find_provider(User | int, site._injectables) is None


def test_a_server_may_know_a_whole_union():
    asked = []

    def injectables(annotation):
        asked.append(annotation)
        return (lambda ctx: 1) if annotation == User | None else None

    assert find_provider(User | None, injectables) is not None
    assert asked == [User | None]


def test_a_generic_type_is_known_by_its_origin():
    def injectables(annotation):
        return (lambda ctx: 1) if annotation is Typed else None

    assert find_provider(Typed[int], injectables) is not None


def test_what_is_not_there_is_none_where_that_is_allowed(site: Site):
    provide = find_provider(HttpRequest | None, site._injectables)

    assert provide is not None
    assert provide(Ctx(request=None)) is None


def test_what_is_not_there_refuses_the_call_otherwise(site: Site):
    provide = find_provider(HttpRequest, site._injectables)

    assert provide is not None
    with pytest.raises(Unavailable, match="needs a HttpRequest, which this connection does not"):
        provide(Ctx(request=None))


def test_a_server_need_not_inject_anything():
    assert Registration()._injectables(User) is None


def test_the_refusal_may_be_told_to_the_model():
    assert issubclass(Unavailable, ToolError)


def test_a_provider_may_say_itself_that_nothing_is_there():
    def provider(ctx):
        raise Unavailable("no")

    optional = find_provider(User | None, lambda a: provider if a is User else None)
    required = find_provider(User, lambda a: provider if a is User else None)

    assert optional is not None
    assert optional(None) is None
    assert required is not None
    with pytest.raises(Unavailable):
        required(None)
