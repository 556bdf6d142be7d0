"""System checks of model tools: a class that is wrong makes no tools, and the check says why."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.core.checks import WARNING, Tags, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.test.utils import isolate_apps
from django.utils.functional import SimpleLazyObject

from django_mcp import MCPServer, signed_in
from django_mcp.contrib.models import ModelTools, notify_changed
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.secret_names import find_sensitive
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Reminder
from tests.unit.contrib.models.conftest import Orders

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db

_names = count()


def faults(server: MCPServer, model: Any = Order, **options: Any) -> list[str]:
    given = {"model": model, "fields": ["number"], "everyone": True, **options}
    name = f"Made{next(_names)}"
    cls: Any = type(name, (ModelTools,), given)
    made = cls.register(server=server)
    assert bool(made.find_faults()) != bool(server.registry.tools)
    found = [
        each for each in run_checks(tags=["django_mcp"]) if f"{name} makes no tools" in each.msg
    ]
    assert [each.msg.partition(": ")[2] for each in found] == [
        f"{each.text}." for each in made.find_faults()
    ]
    return [f"{each.id.removeprefix('django_mcp.')} {each.text}" for each in made.find_faults()]


def test_a_valid_class_passes_the_checks(server: MCPServer):
    assert Orders.register(server=server).find_faults() == []


def test_an_access_rule_is_required(server: MCPServer):
    assert faults(server, everyone=False) == ["M001 nothing says which objects a user may see"]


@pytest.mark.parametrize("option", ["fields", "filters", "search", "ordering", "sortable_by"])
def test_a_secret_must_be_named_explicitly(server: MCPServer, option: str):
    fields = ["number", "customer__password"] if option != "fields" else ["customer__password"]
    allowed = {"allow_sensitive": ["customer__password"]} if option != "fields" else {}
    given = {"fields": fields, **allowed, option: ["customer__password"]}

    assert faults(server, **given) == (
        ["M002 fields names 'customer__password', which looks like a secret (password)"]
        if option == "fields"
        else []
    )


def test_filters_by_a_secret_are_faults(server: MCPServer):
    assert faults(server, filters=["customer__password__startswith"]) == [
        "M002 filters names 'customer__password__startswith', which looks like a secret (password)"
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fields": []}, "fields is empty, so there is nothing to show"),
        (
            {"fields": ["customer__orders__lines__order__lines__quantity"]},
            "fields: 'customer__orders__lines__order__lines__quantity' is in so many lists inside of each other",
        ),
        ({"fields": ["nummer"]}, "fields: shop.Order has no field 'nummer'"),
        ({"fields": ["number", "number"]}, "fields: 'number' is named twice, or itself and with"),
        ({"fields": ["customer", "customer__id"]}, "fields: 'customer' is named itself and with"),
        ({"fields": ["lines", "lines__id"]}, "fields: 'lines' is named itself and with"),
        ({"fields": ["number__x"]}, "fields: 'number' of 'number__x' is no relation"),
        (
            {"fields": ["objects"]},
            "fields: 'objects' of shop.Order is neither a field nor a property",
        ),
        ({"filters": ["status__bigger"]}, "filters: 'status' has no lookup 'bigger'"),
        ({"filters": ["customer__nick"]}, "filters: 'customer' has no field or lookup 'nick'"),
        (
            {"filters": ["status__contians"]},
            "filters: 'status' has no lookup 'contians' (did you mean 'contains'",
        ),
        (
            {"filters": ["customer__usrname"]},
            "filters: 'customer' has no field or lookup 'usrname' (did you mean 'username'",
        ),
        (
            {"filters": ["numbr"]},
            "filters: shop.Order has no field 'numbr' (did you mean 'number'?)",
        ),
        ({"filters": ["number__regex"]}, "filters: 'number__regex' would take regular expressions"),
        ({"filters": ["limit"]}, "filters: 'limit' is the name of another argument of a search"),
        ({"search": ["customer"]}, "search: 'customer' is a relation: name one of its fields"),
        ({"ordering": ["note"]}, "ordering: 'note' is not among fields"),
        ({"fields": ["lines__id"], "ordering": ["lines__id"]}, "ordering: 'lines__id' has several"),
    ],
)
def test_unknown_field_names_are_faults(server: MCPServer, options: Any, text: str):
    found = faults(server, **options)

    assert len(found) == 1
    assert found[0].startswith(f"M003 {text}")


@pytest.mark.parametrize("option", ["sortable_by", "ordering"])
def test_security_unbounded_text_fields_cannot_be_ordered_by(server: MCPServer, option: str):
    given: Any = {"fields": ["id", "text"], option: ["text"]}

    assert faults(server, Reminder, **given) == [
        f"M003 {option}: 'text' has no max_length of at most 500, so it is no order"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "password1",
        "passwords",
        "tokens",
        "secrets",
        "pwd",
        "smtp_pass",
        "totp",
        "otp2",
        "access_key",
        "encryption_key",
        "signing_key",
        "session_key",
        "recovery_codes",
        "apiToken",
        "APIToken",
        "secretKey",
        "backupCodes",
        "customer__apiKey",
    ],
)
def test_security_secret_field_names_are_detected(name: str):
    assert find_sensitive(name, []) == name.split("__")[-1]
    assert find_sensitive(name, [name]) is None


@pytest.mark.parametrize("name", ["passenger", "is_passed", "pinned", "spin", "key", "hashtag"])
def test_other_names_are_no_secrets(name: str):
    assert find_sensitive(name, []) is None


def test_security_a_secret_lookup_field_is_reported(server: MCPServer):
    given: Any = {"fields": ["expire_date"]}
    told = "M002 lookup_field is 'session_key', which looks like a secret (session_key)"

    assert faults(server, Session, **given) == [told]
    assert faults(server, Session, lookup_field="session_key", **given) == [told]


@isolate_apps("tests.support.library")
def test_security_a_relation_whose_values_are_secrets_is_reported(server: MCPServer):
    class ApiToken(models.Model):
        key = models.CharField(max_length=40, primary_key=True)

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return f"no. {self.pk}"

    class Robot(ApiToken):
        name = models.CharField(max_length=20)

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return f"no. {self.pk}"

    class Job(models.Model):
        robot = models.ForeignKey(Robot, on_delete=models.CASCADE)

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return f"no. {self.pk}"

    def told(option: str, name: str) -> str:
        return f"M002 {option} names {name!r}, which looks like a secret (it has the values of one)"

    assert faults(server, Job, fields=["id", "robot"]) == [told("fields", "robot")]
    assert faults(server, Job, fields=["id", "robot__pk"]) == [told("fields", "robot__pk")]
    assert faults(server, Job, fields=["id"], filters=["robot__key__gt"]) == [
        told("filters", "robot__key__gt")
    ]
    assert len(faults(server, Robot, fields=["name"])) == 1  # the lookup field
    assert faults(server, Job, fields=["id", "robot"], allow_sensitive=["robot"]) == []


def test_a_sensitive_field_that_does_not_exist_is_a_fault(server: MCPServer):
    assert faults(server, allow_sensitive=["nummber"]) == [
        "M003 allow_sensitive: no model has a field 'nummber'. Did you mean 'number'?"
    ]
    assert faults(server, allow_sensitive=["isnull"])[0].startswith("M003 allow_sensitive: no")
    assert faults(server, allow_sensitive=["zzzz"])[0].startswith("M003 allow_sensitive: no model")
    known = ["number", "customer__password", "number__isnull", "placed_at__year__gte"]
    assert faults(server, allow_sensitive=known) == []


@pytest.mark.parametrize("name", ["status", "customer__username", "nummer"])
def test_the_lookup_field_is_unique(server: MCPServer, name: str):
    assert faults(server, lookup_field=name)[0].startswith("M004 lookup_field")


def test_a_generic_relation_is_a_fault(server: MCPServer):
    assert faults(server, LogEntry, fields=["object_repr", "content_type__model"]) == []


def test_two_classes_of_one_name_need_a_prefix(server: MCPServer):
    Orders.register(server=server)

    with pytest.raises(RegistrationError, match="there is a tool 'search_orders' already"):
        Orders.register(server=server)
    Orders.register(server=server, prefix="my_", names={"get": "order"})

    assert sorted(server.registry.tools) == [
        "get_order", "my_order", "my_search_orders", "search_orders",
    ]  # fmt: skip


def test_an_unknown_option_is_an_error(server: MCPServer):
    with pytest.raises(TypeError, match=r"Orders.register\(\) has no option 'prefx'. Did you mean"):
        Orders.register(server=server, prefx="x")


def test_names_come_from_the_verbose_names(server: MCPServer):
    class Lines(ModelTools):
        model = OrderLine
        fields = ["id"]
        everyone = True

    Lines.register(server=server)
    User  # noqa: B018

    assert set(server.registry.tools) == {"search_order_lines", "get_order_line"}


# -- names that nothing reads


def _never(*_args: Any) -> bool:
    return False


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("permissions", "shop.view_order", "`permission`"),
        ("scope", "orders", "`scopes`"),
        ("checks", _never, "`check`"),
        ("search_fields", ["number"], "`search`"),
        ("list_filter", ["status"], "`filters`"),
        ("writeable", ["status"], "`writable`"),
        ("Prefix", "my_", "`prefix`"),
        ("permission_classes", (), "`has_permission(self, user, action)`"),
        ("queryset", None, "`get_queryset(self, user)`"),
        ("get_query_set", _never, "`get_queryset`"),
        ("has_permision", _never, "`has_permission`"),
        ("has_perm", _never, "`has_permission`"),
        ("has_view_permission", _never, "`has_permission(self, user, action)`"),
        ("scoped", property(_never), "`scopes`"),
        ("Meta", type("Meta", (), {"permission": "shop.view_order"}), "of the class itself"),
        ("media", _never, "Leave it out"),
        ("tenant", "acme", "Leave it out"),
    ],
)
@pytest.mark.parametrize("is_mixed_in", [False, True])
def test_security_an_attribute_that_nothing_reads_makes_no_tools(
    server: MCPServer, name: str, value: Any, instead: str, is_mixed_in: bool
):
    given = {"model": Order, "fields": ["number"], "everyone": True}
    mixin = type("Mixin", (), {name: value} if is_mixed_in else {})
    cls: Any = type("Named", (mixin, ModelTools), given if is_mixed_in else {**given, name: value})

    (fault,) = cls.register(server=server).find_faults()

    assert (fault.id, fault.text) == (
        "django_mcp.M006",
        f"{name!r} is no option of a ModelTools class",
    )
    assert instead in fault.hint
    assert not server.registry.tools
    assert not server.registry.templates


def test_names_of_the_site_and_functions_are_no_faults(server: MCPServer):
    def count_lines(_tools: Any, order: Order) -> int:
        return order.lines.count()

    own = {"_tenant": "acme", "audit": _never, "names_of_lines": count_lines}
    assert faults(server, fields=["number", "names_of_lines"], **own) == []


@pytest.mark.parametrize("option", ["include", "exclude", "names", "descriptions", "annotations"])
@pytest.mark.parametrize("is_of_class", [True, False])
def test_security_an_option_that_names_no_action_makes_no_tools(
    server: MCPServer, option: str, is_of_class: bool
):
    value: Any = ["serach"] if option in ("include", "exclude") else {"serach": {}}
    given = {option: value}
    options = {"model": Order, "fields": ["number"], "everyone": True}
    cls: Any = type("Named", (ModelTools,), {**options, **(given if is_of_class else {})})

    (fault,) = cls.register(server=server, **({} if is_of_class else given)).find_faults()

    assert fault.text == f"{option} names 'serach', which is no action"
    assert fault.hint == "Did you mean 'search'?"
    assert not server.registry.tools


def test_all_actions_can_be_named(server: MCPServer):
    actions = ["search", "get", "resource", "create", "update", "delete"]
    given = {"writes": actions[3:], "include": actions, "descriptions": dict.fromkeys(actions, "x")}
    assert faults(server, writable=["number"], **given) == []


def unregistered(*classes: type) -> list[str]:
    """Return what is reported of these classes; those of other tests may still be there."""
    found = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.M008"]
    assert all(each.level == WARNING for each in found)
    told = {f"{cls.__module__}.{cls.__qualname__} is not registered." for cls in classes}
    return sorted(each.msg for each in found if each.msg in told)


def make(name: str, *bases: type, module: str = "example_project.shop.mcp", **given: Any) -> Any:
    return type(name, bases, {"__module__": module, "__qualname__": name, **given})


def test_a_class_that_is_not_registered_is_reported(server: MCPServer):
    options: dict[str, Any] = {"model": Order, "fields": ["number"], "everyone": True}
    forgotten = make("Forgotten", ModelTools, **options)
    of_package = make("OfPackage", ModelTools, module="example_project.shop.mcp.orders", **options)

    assert unregistered(forgotten, of_package) == [
        "example_project.shop.mcp.Forgotten is not registered.",
        "example_project.shop.mcp.orders.OfPackage is not registered.",
    ]

    forgotten.register(server=server)
    of_package.register(server=server, prefix="my_")

    assert unregistered(forgotten, of_package) == []


def test_classes_that_others_are_made_of_need_no_registration(server: MCPServer):
    options: dict[str, Any] = {"model": Order, "fields": ["number"], "everyone": True}
    kept = [
        make("Mixin", everyone=True),
        make("Abstract", ModelTools, everyone=True),
        base := make("Base", ModelTools, **options),
        make("Registered", base),
        make("_Private", ModelTools, **options),
        make("Elsewhere", ModelTools, module="example_project.shop.mcp_more", **options),
        make("OfNoApp", ModelTools, module="somewhere.mcp", **options),
    ]
    kept[3].register(server=server)

    assert unregistered(*kept) == []


def test_every_name_of_a_model_admin_is_refused_or_an_option():
    from django.contrib.admin import ModelAdmin

    from django_mcp.contrib.models.attributes import find_unread

    names = {name for name in dir(ModelAdmin) if not name.startswith("_")} - {*dir(ModelTools)}
    refused = type("Refused", (ModelTools,), dict.fromkeys(names, _never))

    assert {name for name, _ in find_unread(refused, ModelTools, ())} == names


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"everyone": "False"}, "everyone cannot be 'False'. It must be True or False"),
        ({"fields": "number"}, "fields cannot be 'number'. It must be a list of names"),
        ({"fields": "__all__"}, "fields cannot be '__all__'"),
        ({"writes": True}, "writes cannot be True"),
        ({"writes": "create"}, "writes cannot be 'create'"),
        ({"model": "shop.Order"}, "model cannot be 'shop.Order'. It must be the class of a model"),
        ({"max_results": "50"}, "max_results cannot be '50'"),
        ({"names": ["search"]}, "names cannot be"),
    ],
)
def test_an_option_of_another_type_is_refused(options: dict[str, Any], says: str):
    given = {"model": Order, "fields": ["number"], "everyone": True, **options}
    tools: Any = type("Typed", (ModelTools,), given)

    with pytest.raises(RegistrationError, match=re.escape(f"Typed: {says}")):
        tools.register(server=MCPServer("typed"))


def get_nothing(self: Any, user: Any) -> Any:
    Order.objects.all()


def get_without_user(self: Any) -> Any:
    return Order.objects.all()


async def get_later(self: Any, user: Any) -> Any:
    return Order.objects.all()


def allow_nothing(self: Any, user: Any, action: str) -> Any:
    user.has_perm(action)


def save_as_an_admin_does(self: Any, request: Any, obj: Any, form: Any, change: Any) -> None:
    obj.save()


def delete_as_an_admin_does(self: Any, request: Any, obj: Any) -> None:
    obj.delete()


@pytest.mark.parametrize(
    ("name", "function", "says"),
    [
        ("get_queryset", get_nothing, "never returns a value"),
        ("get_queryset", get_without_user, "Write def get_queryset(self, user)."),
        ("get_queryset", get_later, "is asynchronous"),
        ("has_permission", allow_nothing, "never returns a value"),
        (
            "save_model",
            save_as_an_admin_does,
            "Write def save_model(self, user, instance, form, change).",
        ),
        ("save_model", get_later, "Write def save_model(self, user, instance, form, change)."),
        (
            "delete_model",
            delete_as_an_admin_does,
            "Write def delete_model(self, user, instance).",
        ),
        ("label", get_without_user, "takes other arguments. Write def label(self, instance)."),
        ("label", get_later, "is asynchronous"),
        ("has_permission", get_nothing, "Write def has_permission(self, user, action)."),
    ],
)
def test_a_function_of_a_class_that_cannot_work_is_refused(name: str, function: Any, says: str):
    fields = ["number", *(["label"] if name == "label" else [])]
    given = {"model": Order, "fields": fields, "everyone": True, name: function}
    tools: Any = type("Hooked", (ModelTools,), given)

    with pytest.raises(RegistrationError, match=re.escape(says)):
        tools.register(server=MCPServer("hooked"))


def test_names_of_views_and_models_are_known_as_well():
    class Mixed(ModelTools):
        model = Order
        fields = ["number"]
        everyone = True

        def save(self, user: Any, instance: Any) -> None:
            instance.save()

        def perform_create(self, serializer: Any) -> None:
            serializer.save()

    tools = Mixed.register(server=MCPServer("mixed"))

    assert {fault.hint.partition(" If ")[0] for fault in tools.find_faults()} == {
        "Write `save_model(self, user, instance, form, change)` instead."
    }


@isolate_apps("tests.support.library")
def test_a_new_object_that_needs_a_file_is_no_tool(server: MCPServer):
    class Scan(models.Model):
        name = models.CharField(max_length=10)
        file = models.FileField()
        copy = models.FileField(blank=True)

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return self.name

    fields = ["id", "name", "file", "copy"]
    assert faults(server, Scan, fields=fields, writes=["create"]) == [
        "M005 the field 'file' requires a file, which arguments cannot carry"
    ]
    assert faults(MCPServer("other"), Scan, fields=fields, writes=["update"]) == []


def test_a_class_is_registered_without_being_called(server: MCPServer):
    with pytest.raises(RegistrationError, match=r"Orders\(\) is made by Orders.register\(\)"):
        Orders().register(server=server)
    with pytest.raises(ImproperlyConfigured, match=r"`model`, and another server is server="):
        Orders.register(Order, server=server)


def test_a_method_of_a_request_is_refused(server: MCPServer):
    class Asking(Orders):
        def get_queryset(self, request: Any) -> Any:
            return Order.objects.filter(customer=request.user)

    with pytest.raises(RegistrationError, match=r"Write def get_queryset\(self, user\)"):
        Asking.register(server=server)


WRITES = ("add", "change", "delete")
READS = ("list", "search", "get", "retrieve")
OWN = "search get"


def names_of_admin(self: Any, user: Any, action: str) -> bool:
    if action in ("add", "change", "delete"):
        return bool(user.is_staff)
    return True


def names_of_a_constant(self: Any, user: Any, action: str) -> bool:
    return action not in WRITES or user.is_staff


def one_name(self: Any, user: Any, verb: str) -> bool:
    return bool(user.is_staff if "update_many" == verb else True)  # noqa: SIM300


def names_in_match(self: Any, user: Any, action: str) -> bool:
    match action:
        case "search" | "view":
            return True
        case "creat":
            return bool(user.is_staff)
    return True


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (names_of_admin, {"add": "'create'", "change": "'update'"}),
        (names_of_a_constant, {"add": "'create'", "change": "'update'"}),
        (one_name, {"update_many": "'update'"}),
        (names_in_match, {"view": "'get'", "creat": "Did you mean 'create'?"}),
    ],
)
def test_security_a_rule_for_what_is_no_action_makes_no_tools(
    server: MCPServer, function: Any, told: dict[str, str]
):
    class Ruled(Orders):
        has_permission = function

    found = Ruled.register(server=server).find_faults()

    assert [(each.id, each.text) for each in found] == [
        (
            "django_mcp.M006",
            f"has_permission() compares its action with {name!r}, which is never one",
        )
        for name in told
    ]
    assert all(hint in fault.hint for fault, hint in zip(found, told.values(), strict=True))
    assert not server.registry.tools


def names_of_actions(self: Any, user: Any, action: str) -> bool:
    if action in ("search", "summarize") or action == "get" or user.name == "view":
        return True
    return action in READS or action in OWN or action in self.writes


def a_name_of_its_own(self: Any, user: Any, action: str) -> bool:
    action = {"create": "add", "update": "change"}.get(action, action)
    return action not in ("add", "change") or user.has_perm(f"shop.{action}_order")


def another_action(self: Any, user: Any, action: str) -> bool:
    return any((lambda action: action == "add")(each) for each in user.groups)


@pytest.mark.parametrize("function", [names_of_actions, a_name_of_its_own, another_action])
def test_a_rule_for_actions_is_not_reported(server: MCPServer, function: Any):
    class Ruled(Orders):
        has_permission = function

    assert Ruled.register(server=server).find_faults() == []


def test_options_for_writing_without_writes_are_reported():
    class Unwritten(Orders):
        writes = ()
        writable = ("note",)

    server = MCPServer("unwritten")
    Unwritten.register(server=server)

    (message,) = [each for each in run_checks(tags=["django_mcp"]) if "Unwritten" in each.msg]

    assert message.id == "django_mcp.M009"
    assert "has `writable`, which nothing reads without `writes`" in message.msg


def published(self: Any, user: Any) -> Any:
    return Order.objects.exclude(status="canceled")


def own(self: Any, user: Any) -> Any:
    return Order.objects.filter(customer=user)


def of_whoever_signs_in(self: Any, user: Any) -> Any:
    if not user.is_authenticated or not user.is_active:
        return Order.objects.none()
    return Order.objects.all()


def of_staff_or_own(self: Any, user: Any) -> Any:
    if user.is_anonymous:
        return Order.objects.none()
    return Order.objects.all() if user.is_staff else Order.objects.filter(customer=user)


def may_view(self: Any, user: Any, action: str) -> bool:
    return bool(user.has_perm("shop.view_order"))


def may_sign_in(self: Any, user: Any, action: str) -> bool:
    return bool(user.is_authenticated)


def own_by_closure(self: Any, user: Any) -> Any:
    return Order.objects.filter(
        pk__in=[each.pk for each in Order.objects.all() if each.customer == user]
    )


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        ({"get_queryset": published}, True),
        ({"get_queryset": own}, False),
        ({"get_queryset": own_by_closure}, False),
        ({"get_queryset": of_whoever_signs_in}, True),
        ({"get_queryset": of_staff_or_own}, False),
        ({"get_queryset": published, "has_permission": may_view}, False),
        ({"get_queryset": published, "has_permission": may_sign_in}, True),
        ({"get_queryset": published, "permission": "shop.view_order"}, False),
        ({"get_queryset": published, "permission": signed_in}, True),
        ({"everyone": True}, False),
        ({"get_queryset": lambda self, user: Product.objects.all(), "model": Product}, False),
        ({"get_queryset": lambda self, user: User.objects.all(), "model": User}, True),
    ],
)
def test_rows_of_users_that_everybody_sees_are_reported(options: dict[str, Any], is_told: bool):
    name = f"Seen{next(_names)}"
    server = MCPServer("seen")
    type(name, (ModelTools,), {"model": Order, "fields": ["pk"], **options}).register(  # type: ignore[attr-defined]
        server=server
    )

    told = [
        each for each in run_checks(tags=["django_mcp"]) if f".{name}.get_queryset()" in each.msg
    ]

    assert [each.id for each in told] == ["django_mcp.M011"] * is_told


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        ({}, True),
        ({"permission": "shop.change_order"}, False),
        ({"permission": signed_in}, True),
        ({"has_permission": lambda self, user, action: user.is_staff}, False),
        ({"get_queryset": lambda self, user: Order.objects.none()}, False),
    ],
)
def test_writes_of_everybody_to_everything_are_reported(options: dict[str, Any], is_told: bool):
    given = {"model": Order, "fields": ["number", "note"], "everyone": True, "writes": ["update"]}
    name = f"Written{next(_names)}"
    server = MCPServer("written")
    type(name, (ModelTools,), {**given, **options}).register(server=server)  # type: ignore[attr-defined]

    told = [each for each in run_checks(tags=["django_mcp"]) if f".{name} lets" in each.msg]

    assert [each.id for each in told] == ["django_mcp.M010"] * is_told


class AllOfUsers(forms.ModelForm):
    class Meta:
        model = User
        fields = ("username", "is_staff")


@pytest.mark.parametrize(
    ("model", "options", "named"),
    [
        (User, {"fields": ["id", "username", "is_superuser", "is_staff", "groups"]}, None),
        (User, {"writable": ["username", "is_superuser"]}, "is_superuser"),
        (User, {"writable": ["groups", "user_permissions"]}, "groups, user_permissions"),
        (User, {"form": AllOfUsers}, "is_staff"),
        (User, {"form": AllOfUsers, "allow_sensitive": ["is_staff"]}, None),
        (User, {"writable": ["username", "is_staff"], "allow_sensitive": ["is_staff"]}, None),
        (Group, {"fields": ["id", "name", "permissions"]}, None),
        (Group, {"writable": ["name", "permissions"]}, "permissions"),
        (Permission, {"writable": ["name", "codename"]}, "codename"),
        (User.groups.through, {"writable": ["group"]}, "group"),
        (Order, {"writable": ["customer"]}, None),
    ],
)
def test_security_fields_that_give_rights_are_reported_if_they_are_written(
    model: Any, options: dict[str, Any], named: str | None
):
    given = {"model": model, "fields": ["id"], "everyone": True, "writes": ["update"]}
    name = f"Given{next(_names)}"
    server = MCPServer("given")
    type(name, (ModelTools,), {**given, **options}).register(server=server)  # type: ignore[attr-defined]

    told = [
        each
        for each in run_checks(tags=["django_mcp"])
        if f".{name} writes" in each.msg and each.id == "django_mcp.M016"
    ]

    assert len(told) == (named is not None)
    assert all(each.msg.endswith(f" writes {named}, which gives rights.") for each in told)
    assert server.registry.tools


def test_forms_whose_rules_a_class_does_not_use_are_told():
    class NumberForm(forms.ModelForm):
        class Meta:
            model = Order
            fields = ("number", "status")

        def clean_number(self) -> str:
            number: str = self.cleaned_data["number"]
            return number

    class PlainForm(forms.ModelForm):
        class Meta:
            model = Order
            fields = ("number",)

    class WiderNumberForm(NumberForm):
        other = forms.CharField()

    class OtherForm(NumberForm):
        class Meta:
            model = Product
            fields = ("name",)

    given = {"model": Order, "fields": ["number"], "everyone": True, "has_permission": _staff}
    told: dict[str, dict[str, Any]] = {
        "Writing": {"writes": ["update"]},
        "Formed": {"writes": ["update"], "form": NumberForm},
        "Deleting": {"writes": ["delete"]},
        "Unconcerned": {"writes": ["update"], "fields": ["status"]},
        "Reading": {},
    }
    server = MCPServer("given")
    for name, options in told.items():
        cls: Any = type(name, (ModelTools,), {**given, **options, "__module__": __name__})
        cls.register(server=server, prefix=name.lower())

    # Classes, forms and admins of other tests may still be there.
    ours = tuple(f"{__name__}.{name} " for name in told)
    messages = [
        each.msg
        for each in run_checks(tags=["django_mcp"])
        if each.id == "django_mcp.M018"
        and each.msg.startswith(ours)
        and NumberForm.__qualname__.rpartition(".")[0] in each.msg
    ]

    assert messages == [
        f"{__name__}.Writing writes without clean_number() of {__name__}.{NumberForm.__qualname__}."
    ]


def _staff(tools: ModelTools, user: Any, action: str) -> bool:
    return bool(user.is_staff)


class _SavingAdmin(admin.ModelAdmin):
    def save_model(self, *args: Any) -> None:
        super().save_model(*args)


class _OtherAdmin(admin.ModelAdmin):
    pass


@pytest.mark.parametrize(
    ("cls", "options", "told"),
    [
        (_SavingAdmin, {"writes": ["create"]}, 1),
        (_SavingAdmin, {"writes": ["delete"]}, 0),
        (_SavingAdmin, {"writes": ["create"], "save_model": lambda *_args: None}, 0),
        (_OtherAdmin, {"writes": ["create", "delete"]}, 0),
    ],
)
def test_an_admin_that_saves_in_its_own_way_is_told(cls: Any, options: Any, told: int):
    site = admin.AdminSite("saving")
    site.register(Reminder, cls)
    name = f"Saving{next(_names)}"
    given = {"model": Reminder, "fields": ["text"], "everyone": True, "__module__": __name__}
    made: Any = type(name, (ModelTools,), {**given, **options})
    server = MCPServer("saving")
    made.register(server=server)

    messages = [each for each in run_checks(tags=["django_mcp"]) if f".{name} writes" in each.msg]
    site.unregister(Reminder)  # a site may stay in the process

    texts = [each.msg for each in messages if each.id == "django_mcp.M018"]
    expected = f"{__name__}.{name} writes without save_model() of {__name__}._SavingAdmin."
    assert texts == [expected] * told


def ships(number: str) -> None:
    Order.objects.filter(number=number).update(status="sent")


async def ships_later(number: str) -> None:
    order = await Order.objects.aget(number=number)
    await Order.objects.abulk_update([order], ["status"])


def ships_and_tells(number: str) -> None:
    Order.objects.filter(number=number).update(status="sent")
    notify_changed(Order.objects.filter(number=number))


def saves(number: str) -> None:
    order = Order.objects.get(number=number)
    order.status = "sent"
    order.save()


def updates_a_dict(number: str) -> None:
    {"a": "b"}.update(b=number)


def test_changes_without_signals_are_told_where_objects_are_resources():
    server = MCPServer("unsignalled")
    for each in (ships, ships_later, ships_and_tells, saves, updates_a_dict):
        server.tool(each)

    Orders.register(server=server)

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.M021"]

    ours = [each.msg for each in messages if each.msg.startswith(f"{__name__}.")]
    assert [each.split(" ")[0] for each in ours] == [
        f"{__name__}.{each.__name__}" for each in (ships, ships_later)
    ]
    assert " changes objects of shop.Order with update() in line " in ours[0]


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        ({"everyone": True, "permission": "shop.view_order"}, True),
        ({"get_queryset": published, "permission": "shop.view_order"}, True),
        ({"everyone": True, "permission": ["shop.view_order", "auth.view_group"]}, False),
        ({"everyone": True, "permission": "shop.change_order"}, False),
        ({"everyone": True, "permission": "shop.gone"}, False),
        ({"everyone": True, "permission": "gone"}, False),
        ({"get_queryset": own, "permission": "shop.view_order"}, False),
        ({"everyone": True}, False),
        ({"model": Product, "everyone": True, "permission": "shop.view_order"}, False),
    ],
)
def test_users_who_are_no_staff_and_may_see_the_objects_of_others_are_told(
    options: dict[str, Any], is_told: bool
):
    permissions = Permission.objects.filter(codename__in=["view_order", "change_order"])
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(permissions)
    group = Group.objects.create(name="customers")
    group.permissions.set(permissions.filter(codename="view_order"))
    User.objects.create_user("ann").groups.add(group)
    name = f"Held{next(_names)}"
    server = MCPServer("held")
    given = {"model": Order, "fields": ["pk"], "__module__": __name__, **options}
    type(name, (ModelTools,), given).register(server=server)  # type: ignore[attr-defined]

    def told(databases: list[str]) -> list[str]:
        found = run_checks(tags=[Tags.database], databases=databases)
        return [each.msg for each in found if each.id == "django_mcp.M022" and name in each.msg]

    assert told([]) == []
    text = (
        f"{__name__}.{name} shows every object of shop.Order, which belong to users, to 1 user who is not staff and "
        "has shop.view_order."
    )
    assert told(["default"]) == [text] * is_told


class _Choosing(ModelTools):
    model = Order
    fields = ["number", "customer"]
    writes = ["update"]
    everyone = True
    has_permission = _staff


class _ChoosingItself(_Choosing):
    def get_choices(self, user: Any, name: str, objects: Any) -> Any:
        return objects.filter(pk=user.pk)


def test_objects_of_users_that_everybody_may_choose_are_told():
    def told(cls: Any, **options: Any) -> list[str]:
        server = MCPServer("choosing")
        for each in options.pop("others", ()):
            each.register(server=server)
        name = f"Choosing{next(_names)}"
        made: Any = type(name, (cls,), {"__module__": __name__, **options})
        made.register(server=server)
        messages = [each for each in run_checks(tags=["django_mcp"]) if f".{name} " in each.msg]
        return [each.msg for each in messages if each.id == "django_mcp.M019"]

    class Users(ModelTools):
        model = User
        fields = ["id", "username"]
        everyone = True

    (message,) = told(_Choosing)
    assert " writes 'customer', and its users may choose every object of auth.User " in message
    assert told(_Choosing, writable=["status"]) == []
    assert told(_Choosing, permission="shop.change_order") == []
    assert told(_ChoosingItself) == []
    assert told(_Choosing, others=[Users]) == []


class AccountForm(forms.ModelForm):
    phrase = forms.CharField(required=False, widget=forms.PasswordInput)
    scan = forms.FileField(required=False)
    source = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = User
        fields = ["id", "username", "email"]


def test_named_fields_that_no_argument_can_set_are_told():
    with isolate_apps("django.contrib.auth"):

        class Note(models.Model):
            title = models.CharField(max_length=20)
            slug = models.SlugField(unique=True)
            attachment = models.FileField(blank=True)

            class Meta:
                app_label = "auth"

            def __str__(self) -> str:
                return self.title

    def told(model: Any = Note, **options: Any) -> list[str]:
        name = f"Named{next(_names)}"
        given = {"model": model, "everyone": True, "writes": ["create", "update"], **options}
        cls: Any = type(name, (ModelTools,), {**given, "__module__": __name__})
        server = MCPServer("named")  # kept until the checks have run
        cls.register(server=server)
        messages = [each for each in run_checks(tags=["django_mcp"]) if f"{name} " in each.msg]
        return [each.msg.partition(" ")[2] for each in messages if each.id == "django_mcp.M020"]

    fields = ["id", "title", "attachment", "slug"]
    # A default names no field.
    assert told(fields=fields) == []
    assert told(fields=fields, writable=["title", "slug"]) == []
    assert told(fields=fields, writable=["title", "slug", "attachment"]) == [
        "names attachment in writable, which no argument can set."
    ]
    assert told(fields=fields, writable=["id", "title", "slug", "attachment"]) == [
        "names id, attachment in writable, which no argument can set."
    ]
    # What says which object is meant is set by no update.
    slugs: dict[str, Any] = {
        "fields": fields,
        "lookup_field": "slug",
        "writable": ["title", "slug"],
    }
    assert told(**slugs) == []
    assert told(**slugs, writes=["update"]) == [
        "names slug in writable, which no argument can set."
    ]
    account: dict[str, Any] = {"model": User, "fields": ["id", "username"], "form": AccountForm}
    # The form itself hides one.
    assert told(**account) == ["names id, phrase, scan in AccountForm, which no argument can set."]
    assert told(**account, allow_sensitive=["phrase"]) == [
        "names id, scan in AccountForm, which no argument can set."
    ]
    assert told(**account, writes=["delete"]) == []


class Uncalled(ModelTools):
    model = Order
    fields = ("number", "worth")
    permission = signed_in

    def get_queryset(self, user: Any) -> Any:
        return self.paid(user) | Order.objects.filter(number=self.first)

    def paid(self, user: Any) -> Any:
        return Order.objects.filter(customer=user)

    def worth(self, instance: Any) -> int:
        return 1

    @property
    def first(self) -> str:
        return self.numbered(1)

    def numbered(self, number: int) -> str:
        return f"A-{number}"

    def beside(self) -> str:
        return ""

    def _own(self) -> str:
        return ""

    def validate_number(self, value: str) -> str:
        return value

    def can_view(self, user: Any) -> bool:
        return False

    @classmethod
    def visible_rows(cls) -> Any:
        return Order.objects.none()

    def before_save(self, user: Any, instance: Any) -> None:
        return None

    def serialize(self, instance: Any) -> Any:
        return {}


def refuse() -> Any:
    raise AssertionError


never_loaded = SimpleLazyObject(refuse)


def call_beside(tools: Any) -> str:
    return str(tools.beside())


def test_methods_that_nothing_calls_are_reported():
    server = MCPServer("uncalled")
    Uncalled.register(server=server)

    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.M023"]

    ours = [each for each in messages if f"{__name__}.Uncalled." in each.msg]
    told = {each.msg.rpartition(".Uncalled.")[2]: str(each.hint).partition("`")[2] for each in ours}
    assert {name: hint.partition("(")[0].partition("`")[0] for name, hint in told.items()} == {
        "before_save().": "save_model",
        "can_view().": "has_permission",
        "serialize().": "fields",
        "validate_number().": "ModelForm",
        "visible_rows().": "get_queryset",
    }
