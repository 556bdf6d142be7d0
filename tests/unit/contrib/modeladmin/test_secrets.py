"""What admin tools exclude: passwords, secret keys, and models of authentication."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.test.utils import isolate_apps

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.modeladmin.columns import AdminColumn
from django_mcp.contrib.modeladmin.sensitive import is_secret_key
from example_project.shop.models import Order
from tests.support.library.models import Tag
from tests.unit.contrib.modeladmin.conftest import Orders
from tests.unit.contrib.modeladmin.test_rules import messages, replace

pytestmark = pytest.mark.django_db


class HiddenNote(forms.ModelForm):
    class Meta:
        model = Order
        fields = ["note", "number", "customer", "status"]
        widgets = {"note": forms.PasswordInput}


class ByMeta(Orders):
    form = HiddenNote


class ByOverrides(Orders):
    formfield_overrides = {models.CharField: {"widget": forms.PasswordInput}}


class ByHook(Orders):
    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name == "note":
            kwargs["widget"] = forms.PasswordInput
        return super().formfield_for_dbfield(db_field, request, **kwargs)


class ReadOnly(ByMeta):
    readonly_fields = ["placed_at", "lines", "note"]


@pytest.mark.parametrize("cls", [ByMeta, ByOverrides, ByHook, ReadOnly])
def test_a_field_with_a_password_widget_is_excluded(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order], cls: Any
):
    replace(site, Order, cls)
    client = make_client(root, Order)

    found = client.call("get_order", id=orders[0].pk)

    assert not found.is_error, found.text
    assert "note" not in found.structured
    assert client.call("search_orders", note__isempty=True).is_error
    assert client.call("update_order", id=orders[0].pk, note="x").is_error


def test_all_models_excludes_authentication_models(server: MCPServer, site: admin.AdminSite):
    own: list[Any] = list(apps.get_app_config("django_mcp").get_models())
    for model in (Session, *own):
        site.register(model)

    admin_tools(server=server, site=site, models="__all__", include=["search"])

    assert "shop_search_orders" in server.registry.tools
    assert len(server.registry.tools) == 7


def test_a_security_model_gets_tools_when_named_explicitly(
    server: MCPServer, site: admin.AdminSite
):
    site.register(Session)

    found = admin_tools(
        server=server, site=site, models=[Session], include=["get"], allow_sensitive=["session_key"]
    )

    assert [entry.name for entry in found] == ["get_session"]


def test_a_model_with_a_secret_key_has_no_tools(server: MCPServer, site: admin.AdminSite):
    site.register(Session)

    assert admin_tools(server=server, site=site, models=[Session]) == []

    (message,) = messages(server)
    assert message.startswith("django_mcp.modeladmin.W001")
    assert "primary key 'session_key' looks like a secret" in message


@isolate_apps("tests.support.library")
def test_a_secret_key_of_a_related_object_is_null():
    class Visit(models.Model):
        session = models.ForeignKey(Session, on_delete=models.CASCADE)

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return "visit"

    visit = Visit(session=Session(session_key="s3cr3t"))

    for allowed, key in (((), None), (("session_key",), "s3cr3t")):
        column = AdminColumn(Visit, "session", allowed)
        shown = column.show_related(column.find_related(visit), set())
        assert shown == {"pk": key, "text": None}


@isolate_apps("tests.support.library")
def test_the_key_of_a_child_of_a_model_with_a_secret_key_is_secret():
    class ApiToken(models.Model):
        key = models.CharField(max_length=40, primary_key=True)

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return f"no. {self.pk}"

    class Robot(ApiToken):
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

    job = Job(robot=Robot(key="s3cr3t", apitoken_ptr_id="s3cr3t"))

    assert is_secret_key(Robot)
    assert not is_secret_key(Robot, ["key"])
    # The text of the object has the key, as it has without a `__str__()` in the class.
    column = AdminColumn(Job, "robot", ())
    shown = column.show_related(column.find_related(job), {"s3cr3t"})
    assert shown == {"pk": None, "text": None}


def test_the_resolver_match_contains_the_model_admin(
    make_client: Any, root: User, site: admin.AdminSite
):
    asked = []

    class Asking(admin.ModelAdmin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            if obj is not None:
                asked.append(request.resolver_match.func.model_admin)
            return True

    replace(site, Tag, Asking)
    tag = Tag.objects.create(name="new")
    client = make_client(root, Tag)

    assert client.call("get_tag", id=str(tag.pk)).structured["name"] == "new"
    assert asked[0] is site.get_model_admin(Tag)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["nope"], "there is no field 'nope', which allow_sensitive= names"),
        (["is_superusr"], r"there is no field 'is_superusr'.*Did you mean 'is_superuser'\?"),
        (["customer__nope"], "there is no field 'customer__nope'"),
        ("groups", r"write allow_sensitive=\['groups'\]"),
    ],
)
def test_a_sensitive_field_that_does_not_exist_is_refused(
    server: MCPServer, site: admin.AdminSite, names: Any, told: str
):
    with pytest.raises(ImproperlyConfigured, match=told):
        admin_tools(server=server, site=site, models=[User], allow_sensitive=names)
    assert server.registry.tools == {}


@pytest.mark.parametrize(
    "name", ["is_superuser", "groups", "password1", "usable_password", "customer__password", "pk"]
)
def test_fields_of_models_and_of_their_forms_may_be_allowed(
    server: MCPServer, site: admin.AdminSite, name: str
):
    assert admin_tools(server=server, site=site, models=[User], allow_sensitive=[name])
