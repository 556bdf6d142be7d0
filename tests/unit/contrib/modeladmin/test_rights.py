"""Fields that give rights: a tool of the admin changes them when the user has agreed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin
from django.contrib.auth.models import Group, Permission, User

from django_mcp.test import MCPClient

CAN_BE_ASKED: dict[str, Any] = {"elicitation": {"form": {}}}


@pytest.fixture
def ann(db: Any) -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def group(db: Any) -> Group:
    return Group.objects.create(name="managers")


RIGHTS: list[tuple[str, Callable[[Group], Any]]] = [
    ("is_superuser", lambda _group: True),
    ("is_staff", lambda _group: True),
    ("groups", lambda group: [group.pk]),
    ("user_permissions", lambda _group: [Permission.objects.all()[0].pk]),
]


@pytest.mark.parametrize(("name", "make"), RIGHTS, ids=[name for name, _make in RIGHTS])
def test_rights_are_given_when_the_call_is_confirmed(
    make_client: Callable[..., MCPClient],
    root: User,
    ann: User,
    group: Group,
    name: str,
    make: Callable[[Group], Any],
):
    client = make_client(root, User, capabilities={})
    given = {"id": ann.pk, name: make(group)}

    asked = client.call("update_user", **given)
    assert not asked.is_error, asked.text
    assert "ann" in asked.structured["message"]
    assert not holds(ann, name)

    token = asked.structured["confirmation"]
    other = client.call("update_user", id=root.pk, **{name: given[name]}, confirmation=token)
    more = client.call("update_user", **given, first_name="Ann", confirmation=token)
    assert (other.is_error, more.is_error) in ((True, True), (False, True))
    assert not holds(ann, name)

    done = client.call("update_user", **given, confirmation=token)
    assert done.structured["id"] == ann.pk
    assert holds(ann, name)


def holds(user: User, name: str) -> bool:
    value = getattr(User.objects.get(pk=user.pk), name)
    return bool(value if isinstance(value, bool) else value.exists())


def test_the_user_is_asked_where_the_client_can(
    make_client: Callable[..., MCPClient], root: User, ann: User, group: Group
):
    client = make_client(root, User, capabilities=CAN_BE_ASKED)
    client.answer({"change": False})
    refused = client.call("update_user", id=ann.pk, groups=[group.pk])
    assert "did not agree" in refused.structured["message"]
    assert not ann.groups.exists()

    client.answer({"change": True})
    client.call("update_user", id=ann.pk, groups=[group.pk], is_superuser=True)
    question = client.questions[-1].message
    assert "managers" in str(question)
    assert "uperuser" in str(question)
    assert holds(ann, "groups")
    assert holds(ann, "is_superuser")


def test_what_gives_no_rights_is_written_without_a_question(
    make_client: Callable[..., MCPClient], root: User, ann: User
):
    client = make_client(root, User, capabilities={})

    done = client.call("update_user", id=ann.pk, first_name="Ann", is_superuser=False)

    assert (done.is_error, done.structured.get("confirmation")) == (False, None)
    assert User.objects.get(pk=ann.pk).first_name == "Ann"


def test_fields_that_the_site_names_are_written_without_a_question(
    make_client: Callable[..., MCPClient], root: User, ann: User, group: Group
):
    client = make_client(root, User, allow_sensitive=["groups"], capabilities={})

    client.call("update_user", id=ann.pk, groups=[group.pk])
    asked = client.call("update_user", id=ann.pk, is_superuser=True)

    assert holds(ann, "groups")
    assert asked.structured["confirmation"]
    assert not holds(ann, "is_superuser")


def test_permissions_of_a_group_are_given_when_the_call_is_confirmed(
    make_client: Callable[..., MCPClient], site: admin.AdminSite, root: User
):
    site.register(Group, GroupAdmin)
    client = make_client(root, Group, capabilities={})
    given = {"name": "new", "permissions": [Permission.objects.all()[0].pk]}

    asked = client.call("create_group", **given)
    assert not Group.objects.exists()
    client.call("create_group", **given, confirmation=asked.structured["confirmation"])
    assert Group.objects.get().permissions.count() == 1

    client.call("create_group", name="without")
    assert Group.objects.count() == 2
