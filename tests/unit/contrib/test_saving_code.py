"""What `manage.py check` reports of `save_model()` and `delete_model()` that write nothing."""

from __future__ import annotations

import logging
from functools import partial
from itertools import count
from typing import Any

import pytest
from django import forms
from django.contrib.admin import AdminSite, ModelAdmin
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils.text import slugify

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.saving_code import writes_nothing
from example_project.shop.models import Order, Product

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db

logger = logging.getLogger(__name__)
_names = count()


class Base:
    def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
        """Save an object."""

    def delete_model(self, user: Any, instance: Any) -> None:
        """Delete an object."""


def store(instance: Any) -> None:
    instance.save()


class Nothing(Base):
    def save_model(self, user, instance, form, change):
        instance.customer = user

    def delete_model(self, user, instance):
        pass


class OnlyValues(Base):
    def save_model(self, user, instance, form, change):
        """Set what no field sets."""
        if not user.is_staff:
            raise PermissionDenied
        if instance.created_by is None:
            instance.created_by = user
        instance.note = slugify(form.cleaned_data.get("note").strip())
        for name in ("customer", "seller"):
            setattr(instance, name, user)
        logger.info("saved %s", instance)

    def delete_model(self, user, instance):
        instance.is_active = False
        print(f"{instance.number} was removed")


WRONG = [Nothing, OnlyValues]


class Inherited(Base):
    def save_model(self, user, instance, form, change):
        instance.customer = user
        super().save_model(user, instance, form, change)

    def delete_model(self, user, instance):
        type(instance).objects.filter(pk=instance.pk).update(is_active=False)


class Saved(Base):
    def save_model(self, user, instance, form, change):
        instance.save(using="default")

    def delete_model(self, user, instance):
        with transaction.atomic():
            instance.delete()


class PassedOn(Base):
    def save_model(self, user, instance, form, change):
        transaction.on_commit(partial(store, instance))

    def delete_model(self, user, instance):
        store(instance)


class Kept(Base):
    def save_model(self, user, instance, form, change):
        self.kept = form
        self.flush()

    def delete_model(self, user, instance):
        instance.hide()

    def flush(self):
        self.kept.save()


class Refusing(Base):
    def save_model(self, user, instance, form, change):
        raise PermissionDenied

    def delete_model(self, *given):
        pass


RIGHT = [Inherited, Saved, PassedOn, Kept, Refusing]


@pytest.mark.parametrize("name", ["save_model", "delete_model"])
@pytest.mark.parametrize("cls", [*WRONG, *RIGHT])
def test_methods_that_write_nothing_are_found(cls: type[Base], name: str):
    assert writes_nothing(getattr(cls(), name)) is (cls in WRONG)


class Complete(ModelTools):
    model = Product
    everyone = True
    fields = ("sku", "name", "category")
    writes = ("create",)


class Priced(Complete):
    def save_model(self, user, instance, form, change):
        instance.price = 1
        super().save_model(user, instance, form, change)


class ProductForm(forms.ModelForm):
    class Meta:
        model = Product
        fields = ("sku", "name", "category")


@pytest.mark.parametrize(
    ("cls", "options", "unset"),
    [
        (Complete, {}, "price"),
        (Complete, {"writable": ["sku", "price"]}, "name, category"),
        (Complete, {"writable": ["sku", "name", "category", "price"]}, None),
        (Complete, {"writes": ["update"]}, None),
        (Complete, {"form": ProductForm}, None),
        (Priced, {}, None),
    ],
)
def test_required_fields_that_nothing_sets_are_reported(
    cls: type[ModelTools], options: dict[str, Any], unset: str | None
):
    """The database would refuse each new object."""
    name, server = f"Unset{next(_names)}", MCPServer("unset")
    own: Any = type(name, (cls,), options)
    own.register(server=server)

    told = [
        each.msg
        for each in run_checks(tags=["django_mcp"])
        if each.id == "django_mcp.M015" and f".{name} " in each.msg
    ]

    assert len(told) == (unset is not None)
    assert all(f"without {unset}, which" in each for each in told)


def messages_of(text: str) -> list[CheckMessage]:
    messages = run_checks(tags=["django_mcp"])
    return [each for each in messages if each.id == "django_mcp.M014" and text in each.msg]


@pytest.mark.parametrize(
    ("writes", "names"),
    [
        ((), []),
        (("create",), ["save_model"]),
        (("update",), ["save_model"]),
        (("delete",), ["delete_model"]),
        (("create", "delete"), ["save_model", "delete_model"]),
    ],
)
def test_model_tools_whose_methods_write_nothing_are_reported(
    writes: tuple[str, ...], names: list[str]
):
    name = f"Unsaved{next(_names)}"
    given = {"model": Order, "fields": ["number", "note"], "everyone": True, "writes": writes}
    # The checks know only servers that something holds.
    servers = [MCPServer("unsaved"), MCPServer("also unsaved")]
    for server, bases in zip(servers, [(Nothing, ModelTools), (ModelTools,)], strict=True):
        cls: Any = type(name, bases, given)
        cls.register(server=server)

    messages = messages_of(f".{name}.")

    assert [each.msg.partition("()")[0].rpartition(".")[2] for each in messages] == names
    for each in messages:
        assert each.msg.endswith("so that a call succeeds and changes nothing.")
        assert "Call super()." in str(each.hint)


def test_an_admin_whose_methods_write_nothing_is_reported():
    class Orders(ModelAdmin):
        def save_model(self, request, obj, form, change):
            obj.customer = request.user
            self.message_user(request, f"{obj} was saved")

    site = AdminSite("unsaved")
    site.register(Order, Orders)
    server = MCPServer("unsaved admin")
    admin_tools(server=server, site=site, models=[Order])

    (message,) = messages_of("of its admin")

    assert "save_model() of its admin neither writes the object" in message.msg
