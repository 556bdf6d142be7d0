"""Rules of the site that never return a value, and permissions that no model has, wherever tools are made from."""

from __future__ import annotations

import functools
import gc
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.core.checks import CheckMessage, run_checks
from django.test import override_settings
from ninja import NinjaAPI
from rest_framework import permissions, viewsets
from rest_framework.response import Response

from django_mcp import MCPServer, object_permission
from django_mcp.auth.permissions import holds
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from django_mcp.middleware import AccessMiddleware, TenantMiddleware
from django_mcp.registry.access import read_verdict
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.signatures import returns_nothing
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Shelf

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


@pytest.fixture
def alone() -> None:
    """Let the servers of earlier tests go, whose functions would be reported as well."""
    gc.collect()


def warnings_of(id: str) -> list[CheckMessage]:
    return [
        each
        for each in run_checks(tags=["django_mcp"])
        if each.id == f"django_mcp.{id}" and __name__ in each.msg
    ]


def names_in(messages: list[CheckMessage]) -> list[str]:
    """Return what the messages begin with, without the module and locals."""
    return sorted(
        each.msg.split(" ")[0].rpartition("<locals>.")[2].removeprefix(f"{__name__}.")
        for each in messages
    )


# -- functions that never return a value


def forgets(user: Any, extra: Any = None) -> Any:
    user.is_staff  # noqa: B018 - the mistake that is tested


class Forgetting:
    def __call__(self, user: Any) -> Any:
        forgets(user)

    def method(self, user: Any) -> Any:
        forgets(user)

    @classmethod
    def of_class(cls, user: Any) -> Any:
        forgets(user)

    @staticmethod
    def static(user: Any) -> Any:
        forgets(user)


def passing_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def dropping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        function(*args, **kwargs)

    return wrapper


def log(*_args: Any) -> None:
    """Write something."""


def logging(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(user: Any) -> Any:
        log("asked", user)
        return function(user)

    return wrapper


def says_yes(user: Any) -> bool:
    return True


SILENT: dict[str, Callable[..., Any]] = {
    "partial": functools.partial(forgets, extra=1),
    "nested partial": functools.partial(functools.partial(forgets, extra=1), extra=2),
    "object": Forgetting(),
    "partial of object": functools.partial(Forgetting()),
    "method": Forgetting().method,
    "class method": Forgetting.of_class,
    "static method": Forgetting.static,
    "cached": functools.lru_cache(forgets),
    "wrapped": passing_on(forgets),
    "wrapped twice": passing_on(passing_on(forgets)),
    "wrapped and cached": functools.lru_cache(passing_on(forgets)),
    "wrapped object": logging(Forgetting().method),
    "dropped": dropping(says_yes),
}


@pytest.mark.parametrize("option", ["permission", "listed_if"])
@pytest.mark.parametrize("rule", SILENT.values(), ids=SILENT)
def test_a_wrapped_rule_that_never_returns_a_value_is_rejected(rule: Any, option: str):
    with pytest.raises(RegistrationError, match=f"{option}= .*never returns a value"):
        MCPServer("silent").register_tool(lambda: "", name="silent", **{option: rule})


def validating(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(user: Any) -> bool:
        function(user)
        return True

    return wrapper


def negating(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(user: Any) -> bool:
        return not function(user)

    return wrapper


def asking_another(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(user: Any) -> bool:
        function(user)
        return says_yes(user)

    return wrapper


def choosing(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(user: Any) -> Any:
        return user.is_staff or function(user)

    return wrapper


def converting(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(user: Any) -> Any:
        return repr(function(user))

    return wrapper


def yields(user: Any) -> Any:
    yield user


async def yields_later(user: Any) -> Any:
    yield user


def stub(user: Any) -> Any:
    raise NotImplementedError


class Abstract(ABC):
    @abstractmethod
    def allows(self, user: Any) -> bool: ...


SPEAKING: dict[str, Any] = {
    "validating": validating(forgets),
    "negating": negating(forgets),
    "asking another": asking_another(forgets),
    "choosing": choosing(forgets),
    "converting": converting(forgets),
    "wrapped": passing_on(says_yes),
    "cached": functools.lru_cache(says_yes),
    "generator": yields,
    "asynchronous generator": yields_later,
    "stub": stub,
    "partial of stub": functools.partial(stub),
    "abstract": Abstract.allows,
    "function in C": len,
    "class": Forgetting,
    "dispatching": functools.singledispatch(forgets),
    "lambda": lambda user: user.is_staff,
}


@pytest.mark.parametrize("rule", SPEAKING.values(), ids=SPEAKING)
def test_a_function_that_may_return_a_value_is_not_meant(rule: Any):
    assert not returns_nothing(rule)


@pytest.mark.usefixtures("alone")
def test_a_wrapped_tool_that_never_returns_its_value_is_reported():
    def find() -> str:  # type: ignore[return]
        """Find."""
        log("found")

    server = MCPServer("wrapped")
    server.tool(passing_on(find))

    (message,) = warnings_of("W026")

    assert "find" in message.msg


def test_a_permission_of_a_completion_that_never_returns_a_value_is_rejected():
    server = MCPServer("completing")

    @server.prompt
    def write(topic: str) -> str:
        """Write."""
        return topic

    with pytest.raises(RegistrationError, match=r"permission= .*forgets .* never returns a value"):
        server.completion(write, "topic", permission=forgets)(lambda value: [value])


class OfUser:
    """A rule that was meant to be called with a request later."""

    def __init__(self, user: Any) -> None:
        self.user = user


class Verdict(OfUser):
    def __bool__(self) -> bool:
        return bool(self.user.is_staff)


@pytest.mark.parametrize("option", ["permission", "listed_if", "check"])
@pytest.mark.parametrize("rule", [OfUser, functools.partial(OfUser)])
def test_a_class_whose_objects_are_always_true_is_rejected(option: str, rule: Any):
    with pytest.raises(
        RegistrationError, match=rf"{option}= cannot be .*makes an object, which is always true"
    ):
        MCPServer("made").register_tool(lambda: "", name="made", **{option: rule})


def test_a_class_whose_objects_are_true_or_false_is_accepted():
    MCPServer("made").register_tool(lambda: "", name="made", permission=Verdict, check=Verdict)


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (Forgetting, "the class .* itself, which is always true: call it"),
        (forgets, "the function .* itself, which is always true: call it"),
        (Forgetting(), "an object of Forgetting"),
        (functools.partial(forgets), "an object of partial"),
    ],
)
def test_what_has_to_be_called_first_grants_nothing(answer: Any, what: str):
    with pytest.raises(TypeError, match=f"it returned {what}"):
        read_verdict(answer)


@pytest.mark.parametrize("user", [AnonymousUser(), User(pk=1)], ids=["anonymous", "signed in"])
@pytest.mark.parametrize("name", ["groups", "user_permissions"])
def test_security_relations_of_users_grant_nothing(
    user: Any, name: str, caplog: pytest.LogCaptureFixture
):
    assert not holds(lambda each: getattr(each, name), user)

    assert "return True or False" in caplog.text


@pytest.mark.parametrize("answer", ["no", 1, 0, [1], (), {"staff": False}, Permission(), object()])
def test_security_only_true_grants(answer: Any, caplog: pytest.LogCaptureFixture):
    assert not holds(lambda _user: answer, AnonymousUser())

    assert f"it returned an object of {type(answer).__name__}: return True or False" in caplog.text


def test_a_set_of_rows_grants_nothing_and_is_not_queried(caplog: pytest.LogCaptureFixture):
    # There is no database in this test.
    assert not holds(lambda _user: User.objects.filter(is_staff=True), AnonymousUser())

    assert "it returned an object of QuerySet: return True or False" in caplog.text


def test_true_grants_and_none_does_not(caplog: pytest.LogCaptureFixture):
    verdicts = [
        holds(lambda _user, each=each: each, AnonymousUser()) for each in (True, False, None)
    ]

    assert verdicts == [True, False, False]
    assert caplog.text == ""


async def allows_later(user: Any) -> bool:
    return True


class AllowsLater:
    async def __call__(self, user: Any) -> bool:
        return True


@pytest.mark.parametrize("rule", [allows_later, functools.partial(allows_later), AllowsLater()])
@pytest.mark.parametrize("option", ["permission", "listed_if"])
def test_an_asynchronous_rule_is_rejected(option: str, rule: Any):
    with pytest.raises(RegistrationError, match=f"{option}= cannot be .*synchronous function"):
        MCPServer("later").register_tool(lambda: "", name="later", **{option: rule})


class Listed(viewsets.ViewSet):
    permission_classes: Any = (permissions.IsAuthenticated,)

    def list(self, request: Any) -> Response:
        return Response([])


def make_api() -> NinjaAPI:
    api = NinjaAPI(urls_namespace="silent")

    @api.get("/all")
    def list_all(request: Any) -> list[str]:
        return []

    return api


MAKERS: dict[str, Callable[..., Any]] = {
    "view": lambda server, **rules: viewset_tools(Listed, server=server, **rules),
    "operation": lambda server, **rules: operation_tools(make_api(), server=server, **rules),
    "admin": lambda server, **rules: admin_tools(server=server, models=[Order], **rules),
}


@pytest.mark.parametrize(
    "rule", [forgets, allows_later, lambda: True], ids=["silent", "async", "arguments"]
)
@pytest.mark.parametrize("option", ["permission", "listed_if"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_rule_of_generated_tools_is_rejected(make: Callable[..., Any], option: str, rule: Any):
    server = MCPServer("generated")

    with pytest.raises(RegistrationError, match=rf"_tools\(\).*: {option}= cannot be"):
        make(server, **{option: rule})

    assert not server.registry.tools


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_check_of_generated_tools_that_never_returns_a_value_is_rejected(make: Any):
    with pytest.raises(RegistrationError, match=r"check= cannot be .*never returns a value"):
        make(MCPServer("generated"), check=forgets)


@pytest.mark.parametrize("make", [MAKERS["view"], MAKERS["operation"]])
@pytest.mark.parametrize("auth", [forgets, functools.partial(forgets)])
def test_a_replaced_authentication_that_never_returns_a_value_is_rejected(make: Any, auth: Any):
    with pytest.raises(RegistrationError, match=r"auth= cannot be .*never returns a value"):
        make(MCPServer("generated"), auth=auth)


def test_middleware_that_never_returns_a_value_is_rejected():
    with pytest.raises(TypeError, match="allows never returns a value"):
        type("Office", (AccessMiddleware,), {"allows": lambda self, exchange: None})
    with pytest.raises(TypeError, match="enter never returns a value"):
        type("Tenant", (TenantMiddleware,), {"enter": lambda self, exchange: None})


Base: Any = permissions.BasePermission


class Silent(Base):
    def has_permission(self, request: Any, view: Any) -> Any:
        request.user.is_staff  # noqa: B018

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> Any:
        request.user.is_staff  # noqa: B018


INVERTED: Any = Silent


class Joined(Listed):
    permission_classes: Any = (~INVERTED | (permissions.IsAdminUser & Silent),)


class Chosen(Listed):
    permission_classes = ()

    def get_permissions(self) -> list[Any]:
        return [Silent()]


class Fine(Listed):
    permission_classes = (permissions.IsAuthenticated, permissions.DjangoModelPermissions)
    queryset = Order.objects.all()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("view", [Joined, Chosen])
def test_permission_classes_that_never_return_a_value_are_reported(view: Any):
    server = MCPServer("classes")
    viewset_tools(view, server=server)

    messages = warnings_of("W026")

    assert names_in(messages) == ["Silent.has_object_permission", "Silent.has_permission"]
    assert f"{view.__name__}.list asks it." in messages[0].msg


@pytest.mark.usefixtures("alone")
def test_permission_classes_of_the_framework_are_not_reported():
    server = MCPServer("classes")
    viewset_tools(Fine, server=server)

    assert not warnings_of("W026")


class SilentInline(admin.TabularInline):
    model = OrderLine

    def has_add_permission(self, request: Any, obj: Any = None) -> Any:
        request.user.is_staff  # noqa: B018


class SilentAdmin(admin.ModelAdmin):
    actions = ("ship",)
    inlines = (SilentInline,)

    def has_view_permission(self, request: Any, obj: Any = None) -> Any:
        request.user.is_staff  # noqa: B018

    def has_ship_permission(self, request: Any) -> Any:
        request.user.is_staff  # noqa: B018

    @admin.action(permissions=["ship"])
    def ship(self, request: Any, queryset: Any) -> None:
        """Ship."""


class SilentSite(admin.AdminSite):
    def has_permission(self, request: Any) -> Any:
        request.user.is_staff  # noqa: B018


@pytest.mark.usefixtures("alone")
def test_methods_of_an_admin_that_never_return_a_value_are_reported():
    site = SilentSite("silent")
    site.register(Order, SilentAdmin)
    server = MCPServer("admin")
    admin_tools(server=server, site=site, models=[Order])

    messages = warnings_of("W026")

    assert names_in(messages) == [
        "SilentAdmin.has_ship_permission",
        "SilentAdmin.has_view_permission",
        "SilentInline.has_add_permission",
        "SilentSite.has_permission",
    ]
    assert all(" more ask it." in each.msg for each in messages)


class SilentAuth:
    def __call__(self, request: Any) -> Any:
        request.user.is_staff  # noqa: B018


def silent_auth(request: Any) -> Any:
    request.user.is_staff  # noqa: B018


async def silent_later(request: Any) -> Any:
    request.user.is_staff  # noqa: B018


def fine_auth(request: Any) -> Any:
    return request.user


@pytest.mark.usefixtures("alone")
def test_authentication_of_operations_that_never_returns_a_value_is_reported():
    from ninja.security import SessionAuth, django_auth

    class SilentSession(SessionAuth):
        def authenticate(self, request: Any, key: Any) -> Any:
            request.user.is_staff  # noqa: B018

    api = NinjaAPI(urls_namespace="silent-auth")
    for number, auth in enumerate(
        [SilentAuth(), silent_auth, silent_later, [fine_auth, SilentSession()], django_auth]
    ):
        api.get(f"/{number}", auth=auth, operation_id=f"get_{number}")(lambda request: "")
    server = MCPServer("auth")
    operation_tools(api, server=server)

    names = names_in(warnings_of("W026"))

    assert names == ["SilentAuth", "SilentSession.authenticate", "silent_auth", "silent_later"]


# -- permissions that do not exist

BY_CONSTANT = "shop.do_constant"


def may_update(user: Any) -> bool:
    return bool(user.has_perm("shop.do_function"))


def may_by_constant(user: Any) -> bool:
    return bool(user.has_perm(BY_CONSTANT))


def may_by_several(user: Any) -> bool:
    return bool(user.has_perms(["shop.view_order", "shop.do_several"]))


def may_by_object(user: Any) -> bool:
    order = Order.objects.first()
    return user.is_staff or user.has_perm(
        "shop.do_object",
        order,
    )


def may_by_chain(user: Any) -> bool:
    return bool(
        user.groups.get().has_perm("shop.do_chain")  # what a formatter makes of a long chain
    )


def may_by_choice(user: Any) -> bool:
    return bool(user.has_perm("shop.view_order" if user.is_staff else "shop.do_choice"))


def may_by_another(user: Any) -> bool:
    return _ask_another(user)


def _ask_another(user: Any) -> bool:
    return bool(user.has_perm("shop.do_another"))


def may_inside(user: Any) -> bool:
    return any(user.has_perm(name) and user.has_perm("shop.do_inside") for name in (user.name,))


class MayUpdate:
    def __call__(self, user: Any) -> bool:
        return self._ask(user)

    def _ask(self, user: Any) -> bool:
        return bool(user.has_perm("shop.do_called"))

    def method(self, user: Any) -> bool:
        return bool(user.has_perm("shop.do_method"))


def may_by_partial(user: Any, extra: int) -> bool:
    return bool(user.has_perm("shop.do_partial"))


@logging
def may_logged(user: Any) -> bool:
    return bool(user.has_perm("shop.do_wrapped"))


@functools.cache
def may_cached(user: Any) -> bool:
    return bool(user.has_perm("shop.do_cached"))


ASKING: list[Callable[..., Any]] = [
    may_update,
    may_by_constant,
    may_by_several,
    may_by_object,
    may_by_chain,
    may_by_choice,
    may_by_another,
    may_inside,
    MayUpdate(),
    MayUpdate().method,
    functools.partial(may_by_partial, extra=1),
    may_logged,
    may_cached,
    lambda user: user.is_active and user.has_perm("shop.do_lambda"),
]


def warnings_of_permissions() -> list[CheckMessage]:
    return [each for each in warnings_of("W008") if "has_perm()" in each.msg]


def permissions_in(messages: list[CheckMessage]) -> set[str]:
    return {name for each in messages for name in re.findall(r"has_perm\(\) for '(.*?)'", each.msg)}


@pytest.mark.usefixtures("alone")
def test_an_unknown_permission_in_a_rule_is_reported():
    server = MCPServer("asking")
    for number, rule in enumerate(ASKING):
        server.register_tool(lambda: "", name=f"asking-{number}", permission=rule)

    messages = warnings_of_permissions()

    words = "function constant several object chain choice another inside called method partial wrapped cached lambda"
    assert permissions_in(messages) == {f"shop.do_{word}" for word in words.split()}
    assert len(messages) == len(ASKING)
    assert "may_update" in messages[0].msg
    assert "asks has_perm() for 'shop.do_function', which no model" in messages[0].msg


@pytest.mark.usefixtures("alone")
def test_rules_of_all_options_are_read():
    server = MCPServer("asking")
    server.register_tool(
        lambda: "",
        name="asking",
        permission=lambda user: user.has_perm("shop.ask_permission"),
        listed_if=lambda user: user.has_perm("shop.ask_listed_if"),
        check=lambda user: user.has_perm("shop.ask_check"),
    )

    @server.prompt
    def write(topic: str) -> str:
        """Write."""
        return topic

    @server.completion(write, "topic", permission=lambda user: user.has_perm("shop.ask_completion"))
    def complete(value: str, user: User) -> list[str]:
        return [value] if user.has_perm("shop.ask_inside") else []

    asked = ("permission", "listed_if", "check", "completion", "inside")
    assert permissions_in(warnings_of_permissions()) == {f"shop.ask_{name}" for name in asked}


MISSPELLED = {
    "shop.chnage_order": "'shop.change_order'",
    "shpo.change_order": "'shop.change_order'",
    "change_order": "'shop.change_order'",
    "Shop.Change_order": "'shop.change_order'",
    "is_staff": "user.is_staff?",
}


@pytest.mark.usefixtures("alone")
def test_the_nearest_permission_is_named(tmp_path: Path):
    file = tmp_path / "rules.py"
    lines = [f"lambda user: user.has_perm({name!r})," for name in MISSPELLED]
    file.write_text("\n".join(["[", *lines, "]"]))
    server = MCPServer("near")
    for number, rule in enumerate(eval(compile(file.read_text(), file, "eval"), globals())):
        server.register_tool(lambda: "", name=f"near-{number}", permission=rule)

    messages = warnings_of_permissions()

    assert len(messages) == len(MISSPELLED)
    for message, (name, meant) in zip(messages, MISSPELLED.items(), strict=True):
        assert repr(name) in message.msg
        assert meant in str(message.hint)


def may_view(user: Any, kind: str = "view") -> Any:
    checker: Any = user
    return (
        user.has_perm("shop.view_order")
        and user.has_perms(("shop.change_order", "auth.view_user"))
        and user.has_perm(f"shop.update_{kind}")
        and user.has_perm("shop.update_" + kind)
        and user.has_perm("shop.{}_order".format(kind))  # noqa: UP032 - as older code has it
        and user.has_perm("blog.publish_entry")  # of an app that other sites have
        and checker.has_perm("update_order", user)  # as packages for permissions on objects do
        and user.has_perm(kind)
    )


@pytest.mark.usefixtures("alone")
def test_other_permissions_are_not_reported():
    server = MCPServer("asking")
    server.register_tool(lambda: "", name="asking", permission=may_view)

    assert not warnings_of_permissions()


class RulesBackend(ModelBackend):
    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return perm == "shop.do_function"


@pytest.mark.usefixtures("alone")
def test_nothing_is_reported_where_a_backend_may_know_other_names():
    server = MCPServer("asking")
    server.register_tool(lambda: "", name="asking", permission=may_update)

    with override_settings(AUTHENTICATION_BACKENDS=[f"{__name__}.RulesBackend"]):
        assert not warnings_of_permissions()


@pytest.mark.usefixtures("alone")
def test_an_unknown_permission_in_a_tool_is_reported():
    server = MCPServer("asking")

    @server.tool
    def drop(user: User) -> str:
        """Drop."""
        return "dropped" if user.has_perm("shop.ask_tool") else "not allowed"

    (message,) = warnings_of_permissions()

    assert "<locals>.drop (" in message.msg


class AskingClass(permissions.BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(request.user.has_perm("shop.ask_view"))


class AskingView(Listed):
    permission_classes = (AskingClass,)


class AskingAdmin(admin.ModelAdmin):
    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return bool(request.user.has_perm("shop.ask_admin"))


class AskingTools(ModelTools):
    model = Shelf
    fields = ("id", "name")
    everyone = True

    def has_permission(self, user: Any, action: str) -> bool:
        return bool(user.has_perm("shop.ask_model"))


def asking_auth(request: Any) -> Any:
    return request.user.has_perm("shop.ask_operation")


@pytest.mark.usefixtures("alone")
def test_unknown_permissions_in_permission_classes_are_reported():
    server = MCPServer("asking")
    viewset_tools(AskingView, server=server)

    assert names_in(warnings_of_permissions()) == ["AskingClass.has_permission"]


@pytest.mark.usefixtures("alone")
def test_unknown_permissions_in_an_admin_are_reported():
    site = admin.AdminSite("asking")
    site.register(Product, AskingAdmin)
    server = MCPServer("asking")
    admin_tools(server=server, site=site, models=[Product])

    assert names_in(warnings_of_permissions()) == ["AskingAdmin.has_change_permission"]


@pytest.mark.usefixtures("alone")
def test_unknown_permissions_in_model_tools_are_reported():
    server = MCPServer("asking")
    AskingTools.register(server=server)

    assert names_in(warnings_of_permissions()) == ["AskingTools.has_permission"]


@pytest.mark.usefixtures("alone")
def test_unknown_permissions_in_authentication_of_operations_are_reported():
    api = NinjaAPI(urls_namespace="asking")
    api.get("/all", auth=asking_auth)(lambda request: "")
    api.get("/own", operation_id="own")(asking_operation)
    server = MCPServer("asking")
    operation_tools(api, server=server)

    (message,) = warnings_of_permissions()

    assert "and 1 more ask has_perm() for 'shop.ask_operation'" in message.msg


def asking_operation(request: Any) -> str:
    return "" if request.user.has_perm("shop.ask_operation") else "no"


@pytest.mark.usefixtures("alone")
def test_a_check_of_an_object_that_no_backend_grants_is_reported():
    server = MCPServer("objects")
    server.register_tool(
        find_order,
        check=object_permission("shop.view_orders", Order, number="number"),
    )

    unknown, ungranted = warnings_of("W008")

    assert "find_order" in unknown.msg
    assert unknown.hint is not None
    assert "Did you mean 'shop.view_order'?" in unknown.hint
    assert " needs a permission on one object with object_permission(), " in ungranted.msg
    with override_settings(
        AUTHENTICATION_BACKENDS=[
            "django.contrib.auth.backends.ModelBackend",
            f"{__name__}.{RulesBackend.__name__}",
        ]
    ):
        assert warnings_of("W008") == []


def find_order(number: str) -> str:
    return number
