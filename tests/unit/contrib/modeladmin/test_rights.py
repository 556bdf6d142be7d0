"""Fields that give rights: a tool of the admin changes them when the user has agreed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType

from django_mcp.test import MCPClient
from tests.support.library.models import Tag

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


def test_the_question_names_each_member_that_comes_or_goes(
    make_client: Callable[..., MCPClient], root: User, ann: User, group: Group
):
    client = make_client(root, User, capabilities={})
    ann.groups.add(group, kept := Group.objects.create(name="kept"))
    new = [Group.objects.create(name=f"harmless readers number {each}") for each in range(20)]
    new.append(Group.objects.create(name="zz \n all-powerful"))

    asked = client.call("update_user", id=ann.pk, groups=[kept.pk, *(each.pk for each in new)])

    told = asked.structured["message"]
    assert "number 19, zz all-powerful, without managers." in told
    assert "kept" not in told


def test_what_is_too_long_for_a_question_is_not_changed(
    make_client: Callable[..., MCPClient], root: User, ann: User
):
    client = make_client(root, User, capabilities={})
    new = [Group.objects.create(name=f"{each} {'x' * 100}") for each in range(40)]

    refused = client.call("update_user", id=ann.pk, groups=[each.pk for each in new])

    assert refused.is_error
    assert "too long to ask" in refused.text
    assert not ann.groups.exists()


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


def test_a_row_between_users_and_what_gives_rights_is_written_when_the_call_is_confirmed(
    make_client: Callable[..., MCPClient],
    site: admin.AdminSite,
    root: User,
    ann: User,
    group: Group,
):
    rows: list[tuple[type[Any], dict[str, Any]]] = [
        (User.groups.through, {"user": ann.pk, "group": group.pk}),
        (
            User.user_permissions.through,
            {"user": ann.pk, "permission": Permission.objects.all()[0].pk},
        ),
        (
            Group.permissions.through,
            {"group": group.pk, "permission": Permission.objects.all()[0].pk},
        ),
    ]
    for model, _given in rows:
        site.register(model)
    client = make_client(root, *(model for model, _given in rows), capabilities={})

    for model, given in rows:
        name = str(model._meta.verbose_name)
        tool = f"create_{name.replace('-', '_').replace(' ', '_')}"
        asked = client.call(tool, **given)
        assert not asked.is_error, asked.text
        assert not model.objects.exists()
        client.call(tool, **given, confirmation=asked.structured["confirmation"])
        assert model.objects.count() == 1


def test_a_permission_is_made_another_one_when_the_call_is_confirmed(
    make_client: Callable[..., MCPClient], site: admin.AdminSite, root: User
):
    site.register(Permission)
    client = make_client(root, Permission, capabilities={})
    held = Permission.objects.get(codename="view_order")
    other = Permission.objects.get(codename="delete_user").content_type_id

    for given in ({"codename": "rule_all"}, {"content_type": other}):
        asked = client.call("update_permission", id=held.pk, **given)
        assert asked.structured["confirmation"], asked.text
    assert Permission.objects.get(pk=held.pk) == held
    client.call("update_permission", id=held.pk, name="Can look at orders")
    assert Permission.objects.get(pk=held.pk).name == "Can look at orders"


def test_a_field_that_only_the_form_has_gives_rights(
    make_client: Callable[..., MCPClient],
    site: admin.AdminSite,
    root: User,
    ann: User,
    group: Group,
):
    class GroupForm(forms.ModelForm):
        members = forms.ModelMultipleChoiceField(User.objects.all(), required=False)

        def save(self, commit: bool = True) -> Group:
            saved = super().save(commit)
            saved.user_set.set(self.cleaned_data["members"])
            return saved

    class Groups(admin.ModelAdmin):
        form = GroupForm

    site.register(Group, Groups)
    client = make_client(root, Group, capabilities={})

    asked = client.call("update_group", id=group.pk, members=[ann.pk])
    assert not holds(ann, "groups")
    client.call(
        "update_group",
        id=group.pk,
        members=[ann.pk],
        confirmation=asked.structured["confirmation"],
    )
    assert holds(ann, "groups")


@pytest.mark.parametrize(("name", "make"), RIGHTS, ids=[name for name, _make in RIGHTS])
def test_a_confirmation_is_good_for_one_change(
    make_client: Callable[..., MCPClient],
    root: User,
    ann: User,
    group: Group,
    name: str,
    make: Callable[[Group], Any],
):
    client = make_client(root, User, capabilities={})
    given = {"id": ann.pk, name: make(group)}

    def confirm(**arguments: Any) -> str:
        token: str = client.call("update_user", **arguments).structured["confirmation"]
        client.call("update_user", **arguments, confirmation=token)
        return token

    first = confirm(**given)
    confirm(id=ann.pk, **{name: [] if isinstance(given[name], list) else False})
    assert not holds(ann, name)

    again = client.call("update_user", **given, confirmation=first)
    assert again.is_error
    assert not holds(ann, name)


def test_a_confirmation_is_for_the_object_as_it_was(
    make_client: Callable[..., MCPClient], root: User, ann: User, group: Group
):
    client = make_client(root, User, capabilities={})
    given = {"id": ann.pk, "is_staff": True}
    changes: list[Callable[[], Any]] = [
        lambda: User.objects.filter(pk=ann.pk).update(first_name="Ann"),
        lambda: ann.groups.add(group),
    ]
    for change in changes:
        token = client.call("update_user", **given).structured["confirmation"]
        change()
        assert client.call("update_user", **given, confirmation=token).is_error
    assert not holds(ann, "is_staff")


def test_a_confirmed_object_is_added_once(
    make_client: Callable[..., MCPClient], site: admin.AdminSite, root: User, ann: User
):
    ContentType.objects.clear_cache()  # an earlier test has rolled that of this model back
    site.register(User.groups.through)
    client = make_client(root, User.groups.through, capabilities={})
    given = {"user": ann.pk, "group": Group.objects.create(name="managers").pk}
    token = client.call("create_user_group_relationship", **given).structured["confirmation"]
    client.call("create_user_group_relationship", **given, confirmation=token)
    ann.groups.clear()

    assert client.call("create_user_group_relationship", **given, confirmation=token).is_error
    assert not ann.groups.exists()


LIE = 'x"? Nothing is lost.\n\n(Yes is the safe answer.) \u202e' + "y" * 400


def test_the_text_of_an_object_is_no_part_of_the_question(
    make_client: Callable[..., MCPClient], site: admin.AdminSite, root: User, ann: User
):
    group = Group.objects.create(name=LIE[:150])
    tag = Tag.objects.create(name=LIE[:20])
    site.register(Group, GroupAdmin)
    client = make_client(root, Group, Tag, capabilities={})
    permission = Permission.objects.all()[0].pk

    for tool, arguments in (
        ("delete_group", {"id": group.pk}),
        ("update_group", {"id": group.pk, "permissions": [permission]}),
        ("delete_tag", {"id": tag.pk}),
    ):
        question = client.call(tool, **arguments).structured["message"]
        assert "\n" not in question
        assert "\u202e" not in question
        assert "x'? Nothing" in question
        assert question.count('"') == 2
