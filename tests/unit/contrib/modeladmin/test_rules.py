"""A customized `ModelAdmin`: its own searches, forms, requests and values."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib import messages as django_messages
from django.contrib.auth.models import Group, User
from django.core.checks import run_checks
from django.core.exceptions import PermissionDenied
from django.urls import path, set_script_prefix

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.inprocess import UnknownTool
from example_project.shop.models import Order, OrderLine
from tests.support.library.models import Book, Shelf, Tag
from tests.unit.contrib.modeladmin.conftest import Orders, OwnOrders

pytestmark = pytest.mark.django_db


def replace(site: admin.AdminSite, model: Any, cls: Any) -> None:
    site.unregister(model)
    site.register(model, cls)


def messages(server: MCPServer) -> list[str]:
    found = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    return [f"{each.id} {each.msg}" for each in found]


def numbers(client: Any, **arguments: Any) -> list[str]:
    found = client.call("search_orders", **arguments)
    assert not found.is_error, found.text
    return [each["number"] for each in found.structured["results"]]


def test_a_custom_search_finds_only_rows_of_the_users_queryset(
    make_client: Any, make_staff: Callable[..., User], site: admin.AdminSite, orders: list[Order]
):
    class Wide(OwnOrders):
        def get_search_results(self, request: Any, queryset: Any, search_term: str) -> Any:
            return queryset | Order.objects.filter(number=search_term), False

    replace(site, Order, Wide)
    staff = make_staff("staff", "shop.view_order")
    Order.objects.filter(number="A-0").update(customer=staff)
    client = make_client(staff, Order)

    assert numbers(client, search="B-3") == ["A-0"]
    assert numbers(client, search="A-0", ordering="-number") == ["A-0"]


def test_rows_are_sorted_only_by_what_the_admin_lets_the_user_sort_by(
    make_client: Any,
    make_staff: Callable[..., User],
    root: User,
    site: admin.AdminSite,
    orders: list[Order],
):
    class Sorted(Orders):
        list_display = ["number", "status"]

        def get_sortable_by(self, request: Any) -> Any:
            return ["number", "status"] if request.user.is_superuser else ["number"]

    replace(site, Order, Sorted)
    staff = make_staff("staff", "shop.view_order")

    assert numbers(make_client(root, Order), ordering="-number", limit=1) == ["B-4"]
    assert numbers(make_client(root, Order), ordering="status", limit=1) == ["A-1"]
    assert numbers(make_client(staff, Order), ordering="-number", limit=1) == ["B-4"]
    found = make_client(staff, Order).call("search_orders", ordering="status")
    assert found.is_error
    assert "/ordering: Enter a valid value." in found.text


def test_functions_that_are_columns_of_one_request_are_not_kept(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    made: list[weakref.ref[Any]] = []

    class Counted(Orders):
        def get_list_display(self, request: Any) -> Any:
            def position(order: Order) -> str:
                return f"{order.number} of {len(made)}"

            made.append(weakref.ref(position))
            return ["number", position]

    replace(site, Order, Counted)
    client = make_client(root, Order)
    made.clear()

    for _ in range(3):
        found = client.call("search_orders", limit=1).structured["results"][0]
        assert found["position"] == f"{found['number']} of {len(made)}"
    gc.collect()
    assert [each() for each in made[:2]] == [None, None]


def test_the_module_permission_hides_the_tools(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    class Hidden(Orders):
        def has_module_permission(self, request: Any) -> bool:
            return False

    replace(site, Order, Hidden)
    client = make_client(root, Order)

    assert client.list_tools() == []


def test_listed_if_does_not_replace_admin_permissions(make_client: Any, orders: list[Order]):
    client = make_client(User.objects.get(username="ann"), Order, listed_if=lambda user: True)

    assert client.call("search_orders").structured["results"] == []
    assert client.call("get_order", id=orders[0].pk).text == "Order not found."


def test_forms_may_access_the_request_user(make_client: Any, root: User, site: admin.AdminSite):
    class OfOwnShelves(admin.ModelAdmin):
        def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
            kwargs["queryset"] = Shelf.objects.filter(owner=request.user)
            return super().formfield_for_foreignkey(db_field, request, **kwargs)

    replace(site, Book, OfOwnShelves)
    book = Book.objects.create(isbn="1", title="Emma")
    client = make_client(root, Book)

    assert client.call("get_book", isbn=book.isbn).structured["title"] == "Emma"


def test_admin_methods_can_read_object_id_from_the_resolver_match(
    make_client: Any, root: User, site: admin.AdminSite
):
    class Asking(admin.ModelAdmin):
        def get_readonly_fields(self, request: Any, obj: Any = None) -> Any:
            is_page = "object_id" in request.resolver_match.kwargs
            return ["title"] if is_page else []

    replace(site, Book, Asking)
    Book.objects.create(isbn="1", title="Emma")
    client = make_client(root, Book)

    assert client.call("get_book", isbn="1").structured["title"] == "Emma"


@pytest.mark.parametrize("prefix", ["/", "/shop/"])
def test_admin_methods_see_the_path_of_the_admin_page(
    make_client: Any, root: User, site: admin.AdminSite, settings: Any, prefix: str
):
    asked: list[tuple[Any, ...]] = []

    class Asking(admin.ModelAdmin):
        actions = ["read"]

        def get_queryset(self, request: Any) -> Any:
            asked.append(see(request))
            return super().get_queryset(request)

        @admin.action
        def read(self, request: Any, queryset: Any) -> None:
            asked.append(see(request))

        def has_add_permission(self, request: Any) -> bool:
            asked.append(see(request))
            return True

    def see(request: Any) -> tuple[Any, ...]:
        match = request.resolver_match
        script_name = request.META["SCRIPT_NAME"]
        assert (
            request.path
            == script_name + request.path_info
            == script_name + request.META["PATH_INFO"]
        )
        assert script_name == prefix[:-1]
        return request.path_info, match.url_name, match.kwargs

    replace(site, Book, Asking)
    urls: Any = type("Urls", (), {"urlpatterns": [path("back/office/", site.urls)]})
    settings.ROOT_URLCONF = urls
    Book.objects.create(isbn="a/b", title="Emma")
    client = make_client(root, Book, capabilities={})
    start = "/back/office/library/book/"
    of_book = {"object_id": "a_2Fb"}
    set_script_prefix(prefix)
    try:
        client.call("search_books")
        assert (start, "library_book_changelist", {}) == asked[-1]
        client.call("get_book", isbn="a/b")
        change = (f"{start}a_2Fb/change/", "library_book_change", of_book)
        assert change == asked[-1]
        client.call("update_book", isbn="a/b", title="Persuasion")
        assert change == asked[-1]
        client.call("delete_book", isbn="a/b")
        assert (f"{start}a_2Fb/delete/", "library_book_delete", of_book) == asked[-1]
        client.call("read_books", ids=["a/b"])
        assert (start, "library_book_changelist", {}) == asked[-1]
        asked.clear()
        client.call("create_book", isbn="c", title="Emma")
        assert (f"{start}add/", "library_book_add", {}) in asked
    finally:
        set_script_prefix("/")


def test_a_model_admin_that_needs_a_real_request_is_reported(
    server: MCPServer, site: admin.AdminSite
):
    class Needy(Orders):
        def get_list_display(self, request: Any) -> Any:
            return request.session["columns"]

    replace(site, Order, Needy)

    found = admin_tools(server=server, site=site, models=[Order, Book], include=["get"])

    assert [entry.name for entry in found] == ["get_book"]
    (message,) = messages(server)
    assert "Needy of shop.Order is no tool: it cannot be described: KeyError" in message


def test_a_model_without_a_model_admin_is_reported(server: MCPServer, site: admin.AdminSite):
    assert admin_tools(server=server, site=site, models=[Group]) == []

    (message,) = messages(server)
    assert message.startswith("django_mcp.modeladmin.W001 auth.Group is no tool: the admin site")


@pytest.mark.parametrize(
    ("models", "reason"),
    [([], "models= is empty"), ("__all__", "the admin site 'bare' has no models")],
)
def test_tools_of_no_models_are_reported(server: MCPServer, models: Any, reason: str):
    bare = admin.AdminSite(name="bare")
    assert admin_tools(server=server, site=bare, models=models) == []

    assert messages(server) == [
        f"django_mcp.modeladmin.W001 admin_tools() makes no tools: {reason}."
    ]


def test_a_check_report_does_not_keep_a_server_alive(site: admin.AdminSite):
    server = MCPServer("gone", public=True)
    assert admin_tools(server=server, site=site, models=[Group]) == []
    known = weakref.ref(server)

    del server
    gc.collect()

    assert known() is None


def test_numbers_without_a_json_form_are_strings(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    class Computed(Orders):
        list_display = ["number", "ratio"]

        def ratio(self, order: Order) -> float:
            return float("nan")

    replace(site, Order, Computed)
    client = make_client(root, Order)

    assert client.call("search_orders", limit=1).structured["results"][0]["ratio"] == "nan"


def test_the_admin_site_decides_who_has_access(make_client: Any, root: User, site: admin.AdminSite):
    site.has_permission = lambda request: request.user.username == "other"  # type: ignore[method-assign]

    assert make_client(root, Order).list_tools() == []


def test_columns_may_define_their_own_ordering(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    class Named(Orders):
        list_display = ["number", "shout", "whisper", "name"]

        @admin.display(ordering="-number")
        def shout(self, order: Order) -> str:
            return f"{order.number}!"

        @admin.display(ordering="note")
        def whisper(self, order: Order) -> str:
            return "hush"

        @admin.display(ordering="customer__username")
        def name(self, order: Order) -> str:
            return "hush"

    replace(site, Order, Named)
    client = make_client(root, Order)

    assert numbers(client, ordering="shout", limit=1) == ["B-4"]
    assert numbers(client, ordering="-shout", limit=1) == ["A-0"]
    # The values of an order travel in cursors, so it has to be shown.
    for name in ("whisper", "name"):
        assert "/ordering" in client.call("search_orders", ordering=name).text


# -- related objects


@pytest.fixture
def shelved(make_staff: Any) -> User:
    """A clerk who sees the books and their own shelf, of two with a book each."""
    everything = ["library.view_book", "library.change_book", "library.view_shelf"]
    clerk, other = make_staff("clerk", *everything), make_staff("other")
    for user, title in ((clerk, "Own"), (other, "Hidden")):
        shelf = Shelf.objects.create(name=f"of {user.username}", owner=user)
        Book.objects.create(isbn=title, title=title, shelf=shelf)
    return clerk


def books(client: Any, **arguments: Any) -> list[str]:
    found = client.call("search_books", **arguments)
    assert not found.is_error, found.text
    return [each["isbn"] for each in found.structured["results"]]


@pytest.mark.parametrize(
    ("arguments", "seen", "by_root"),
    [
        ({"shelf__name": "of clerk"}, ["Own"], ["Own"]),
        ({"shelf__name": "of other"}, [], ["Hidden"]),
        ({"shelf__name__isempty": False}, ["Loose", "Own"], ["Hidden", "Loose", "Own"]),
        ({"shelf__owner__date_joined__gte": "2020-01-01T00:00:00Z"}, ["Own"], ["Hidden", "Own"]),
        ({"search": "of other"}, [], ["Hidden"]),
        ({"search": "of"}, ["Own"], ["Hidden", "Own"]),
        ({"search": "hidden"}, ["Hidden"], ["Hidden"]),
        ({"search": "loose"}, ["Loose"], ["Loose"]),
        ({"search": "clerk own"}, ["Own"], ["Own"]),
    ],
)
def test_security_filters_and_search_ignore_unviewable_related_objects(
    make_client: Any,
    site: admin.AdminSite,
    root: User,
    shelved: User,
    arguments: Any,
    seen: list[str],
    by_root: list[str],
):
    class Searched(admin.ModelAdmin):
        ordering = ["isbn"]
        search_fields = ["title", "shelf__name"]
        list_filter = [
            "shelf__name",
            ("shelf__name", admin.EmptyFieldListFilter),
            "shelf__owner__date_joined",
        ]

    class OwnShelves(admin.ModelAdmin):
        def get_queryset(self, request: Any) -> Any:
            rows = super().get_queryset(request)
            return rows if request.user.is_superuser else rows.filter(owner=request.user)

    Book.objects.create(isbn="Loose", title="Loose")
    replace(site, Book, Searched)
    replace(site, Shelf, OwnShelves)
    site.unregister(User)
    client = make_client(shelved, Book)

    assert books(client, **arguments) == seen
    client.force_login(root)
    assert books(client, **arguments) == by_root


def test_security_filters_and_search_skip_models_without_view_permission(
    make_client: Any, make_staff: Any, site: admin.AdminSite, root: User, orders: list[Order]
):
    class Searched(Orders):
        list_filter = ["customer__email"]
        search_fields = ["number", "customer__email"]

    User.objects.filter(username="ann").update(email="ann@example.com")
    replace(site, Order, Searched)
    client = make_client(make_staff("viewer", "shop.view_order"), Order)

    assert numbers(client, search="example") == []
    assert numbers(client, search="A-") == ["A-0", "A-1", "A-2"]
    assert numbers(client, customer__email="ann@example.com") == []
    client.force_login(root)
    assert numbers(client, search="example") == ["A-0", "A-1", "A-2"]
    assert numbers(client, customer__email="ann@example.com") == ["A-0", "A-1", "A-2"]


class PickyShelves(admin.ModelAdmin):
    """Has object permissions for shelves."""

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return obj is None or obj.owner == request.user

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False


def test_security_models_with_object_permissions_are_not_searched_or_chosen(
    make_client: Any, site: admin.AdminSite, shelved: User
):
    class Searched(admin.ModelAdmin):
        fields = ["isbn", "title", "shelf"]
        list_filter = ["shelf", "shelf__name"]
        search_fields = ["title", "shelf__name"]

    replace(site, Book, Searched)
    replace(site, Shelf, PickyShelves)
    client = make_client(shelved, Book)
    own, hidden = Shelf.objects.get(owner=shelved), Shelf.objects.exclude(owner=shelved).get()

    assert books(client, search="of") == []
    assert books(client, search="own") == ["Own"]
    assert books(client, shelf=own.pk) == ["Own"]
    assert books(client, shelf=hidden.pk) == []
    assert "/shelf__name" in client.call("search_books", shelf__name="of other").text
    refused = client.call("update_book", isbn="Own", shelf=hidden.pk).text
    assert refused == client.call("update_book", isbn="Own", shelf=10**6).text
    assert "/shelf: Select a valid choice." in refused
    assert not client.call("update_book", isbn="Own", shelf=own.pk).is_error
    told = "PickyShelves decides about each object"
    assert [each for each in messages(client.server) if told in each]


def test_security_members_without_view_permission_are_hidden_but_kept(
    make_client: Any, make_staff: Any, site: admin.AdminSite, root: User
):
    class PickyTags(admin.ModelAdmin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or request.user.is_superuser or obj.name != "hidden"

        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return self.has_view_permission(request, obj)

    class Tagged(admin.ModelAdmin):
        fields = ["isbn", "tags"]
        list_filter = ["tags"]

    replace(site, Tag, PickyTags)
    replace(site, Book, Tagged)
    hidden, seen, other = (Tag.objects.create(name=name) for name in ("hidden", "seen", "other"))
    book = Book.objects.create(isbn="1", title="One")
    book.tags.set([hidden, seen])
    client = make_client(make_staff("clerk", "library.view_book", "library.change_book"), Book)

    def update(*tags: Tag) -> Any:
        return client.call("update_book", isbn="1", tags=[str(each.pk) for each in tags])

    def names() -> set[str]:
        return {each.name for each in book.tags.all()}

    assert client.call("get_book", isbn="1").structured["tags"] == [
        {"pk": str(seen.pk), "text": "seen"}
    ]
    assert books(client, tags=str(hidden.pk)) == []
    assert [each["text"] for each in update(other).structured["tags"]] == ["other"]
    assert names() == {"hidden", "other"}
    assert update(hidden, seen).is_error
    assert names() == {"hidden", "other"}
    assert not update().is_error
    assert names() == {"hidden"}
    client.force_login(root)
    assert not update(seen).is_error
    assert names() == {"seen"}


def test_a_huge_primary_key_of_a_member_is_an_invalid_choice(make_client: Any, root: User):
    client = make_client(root, User)

    for key in (10**25, -(2**63), 2**64):
        assert "/groups: " in client.call("update_user", id=root.pk, groups=[key]).text


# -- side effects of the admin's pages


def test_a_custom_search_also_runs_without_a_term(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    class Narrow(Orders):
        def get_search_results(self, request: Any, queryset: Any, search_term: str) -> Any:
            found, has_duplicates = super().get_search_results(request, queryset, search_term)
            return found.exclude(number="A-1"), has_duplicates

    replace(site, Order, Narrow)
    client = make_client(root, Order)

    assert numbers(client) == ["A-0", "A-2", "B-3", "B-4"]
    assert numbers(client, search="A-") == ["A-0", "A-2"]


def test_overridden_admin_views_are_reported(server: MCPServer, site: admin.AdminSite, root: User):
    class Viewed(Orders):
        def change_view(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            return super().change_view(request, *args, **kwargs)

        def get_changelist(self, request: Any, **kwargs: Any) -> Any:
            return super().get_changelist(request, **kwargs)

        def response_change(self, request: Any, obj: Any) -> Any:
            return super().response_change(request, obj)

    replace(site, Order, Viewed)
    admin_tools(server=server, site=site, models=[Order, User], exclude=["create"])

    (message,) = messages(server)
    assert message.startswith("django_mcp.modeladmin.W002 ")
    assert "Viewed of shop.Order has methods of its own that no tool runs" in message
    assert message.endswith(": change_view, get_changelist, response_change.")


def _fetch(client: Any) -> bool:
    return bool(client.session)


_fetch.__module__ = "another_package.clients"


def test_methods_that_read_the_session_or_cookies_are_reported(
    server: MCPServer, site: admin.AdminSite
):
    class OfTenant(Orders):
        def get_queryset(self, request: Any) -> Any:
            rows = super().get_queryset(request)
            return rows.filter(number__startswith=request.session.get("tenant", ""))

        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return "blocked" not in request.COOKIES

        def delete_view(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            request.session.clear()
            return super().delete_view(request, *args, **kwargs)

        def get_urls(self) -> Any:
            return [path("merge/", self.merge), *super().get_urls()]

        def merge(self, request: Any) -> Any:
            request.session["merged"] = True

        def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
            return bool(request.user.is_superuser and _fetch(request))

    replace(site, Order, OfTenant)
    admin_tools(server=server, site=site, models=[Order], exclude=["create"])

    [message] = [each for each in messages(server) if "modeladmin.W004" in each]
    assert (
        "cookies of the request in get_queryset(), has_view_permission(). A call has none"
        in message
    )


def _is_pending(request: Any) -> bool:
    return bool(request.session.get("pending"))


class _SecondFactor(admin.AdminSite):
    def has_permission(self, request: Any) -> bool:
        return super().has_permission(request) and not self._is_locked(request)

    def _is_locked(self, request: Any) -> bool:
        return _is_pending(request)


def test_an_admin_site_that_reads_the_session_is_reported_and_named_as_a_rule(
    server: MCPServer,
):
    secured = _SecondFactor("secured")
    secured.register([Order, User])

    admin_tools(server=server, site=secured, models=[Order, User])

    [message] = [each for each in messages(server) if "modeladmin.W004" in each]
    assert (
        "_SecondFactor reads the session or cookies of the request in has_permission()" in message
    )
    with pytest.raises(UnknownTool) as raised:
        server.call_tool("search_orders")
    assert f"has_view_permission and {__name__}._SecondFactor.has_permission" in str(
        raised.value.__notes__
    )


def test_views_in_place_of_the_pages_are_reported(server: MCPServer, site: admin.AdminSite):
    class Folders(Orders):
        def get_urls(self) -> Any:
            view = self.admin_site.admin_view
            return [
                path("", view(self.list_folder), name="folder"),
                path("<int:pk>/list/", view(self.list_folder), name="list"),
                *super().get_urls(),
            ]

        def list_folder(self, request: Any, pk: int = 0) -> Any:
            raise PermissionDenied

    replace(site, Order, Folders)
    admin_tools(server=server, site=site, models=[Order, User], exclude=["create"])

    (message,) = messages(server)
    assert message.startswith("django_mcp.modeladmin.W002 ")
    assert "Folders of shop.Order has methods of its own that no tool runs" in message
    assert message.endswith(": list_folder.")


def test_security_adding_users_also_requires_the_change_permission(
    make_client: Any, make_staff: Any
):
    passwords = ["password1", "password2"]
    adder = make_staff("adder", "auth.view_user", "auth.add_user")
    client = make_client(adder, User, allow_sensitive=passwords)
    client.assert_hidden("create_user")

    client.force_login(make_staff("both", "auth.add_user", "auth.change_user"))
    client.assert_visible("create_user")


def test_messages_sent_by_hooks_are_in_the_result(
    make_client: Any, root: User, site: admin.AdminSite
):
    class Telling(admin.ModelAdmin):
        fields = ["name", "owner"]

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            django_messages.warning(request, f"{obj} was numbered anew.")
            super().save_model(request, obj, form, change)

        def delete_model(self, request: Any, obj: Any) -> None:
            self.message_user(request, f"{obj} is gone.")
            super().delete_model(request, obj)

    replace(site, Shelf, Telling)
    client = make_client(root, Shelf, capabilities={})

    made = client.call("create_shelf", name="new", owner=root.pk).structured
    told = [{"level": "warning", "text": "new was numbered anew."}]
    assert made["messages"] == told
    changed = client.call("update_shelf", id=made["id"], name="new").structured
    assert changed["messages"] == told
    asked = client.call("delete_shelf", id=made["id"]).structured
    deleted = client.call("delete_shelf", id=made["id"], confirmation=asked["confirmation"])
    assert deleted.structured["messages"] == [{"level": "info", "text": "new is gone."}]
    client.assert_conforms()


def test_security_a_filter_that_the_admin_refuses_to_a_user_is_refused(
    make_client: Any, make_staff: Any, root: User, site: admin.AdminSite, orders: list[Order]
):
    asked = []

    class Refusing(Orders):
        def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
            asked.append((lookup, value))
            return bool(request.user.is_superuser)

    replace(site, Order, Refusing)
    customer = orders[0].customer_id
    given: list[tuple[str, Any, tuple[str, str]]] = [
        ("status", "placed", ("status__exact", "placed")),
        ("customer", customer, ("customer__id__exact", str(customer))),
        ("customer", None, ("customer__isnull", "True")),
        ("placed_at__gte", "2026-01-02T00:00:00Z", ("placed_at__gte", "2026-01-02T00:00:00Z")),
        ("note__isempty", True, ("note__isempty", "1")),
        ("state", "open", ("state", "open")),
    ]
    clerk = make_client(make_staff("clerk", "shop.view_order", "auth.view_user"), Order)
    client = make_client(root, Order)

    for name, value, lookup in given:
        assert f"/{name}: Enter a valid value." in clerk.call("search_orders", **{name: value}).text
        assert not client.call("search_orders", **{name: value}).is_error
        assert asked == [lookup, lookup]
        asked.clear()
    assert not clerk.call("search_orders").is_error


class Positional(Orders):
    def lookup_allowed(self, *args: Any) -> bool:
        return len(args) == 3 and bool(super().lookup_allowed(*args))


class Passing(Orders):
    def lookup_allowed(self, *args: Any, **kwargs: Any) -> bool:
        return len(args) + len(kwargs) == 3 and bool(super().lookup_allowed(*args, **kwargs))


class Named(Orders):
    def lookup_allowed(self, lookup: str, value: str, *, request: Any) -> bool:  # type: ignore[override]
        return bool(request.user.is_superuser)


class Renamed(Orders):
    def lookup_allowed(self, lookup: str, value: str, asking: Any) -> bool:
        return bool(asking.user.is_superuser)


class Old(Orders):
    def lookup_allowed(self, lookup: str, value: str) -> bool:  # type: ignore[override]
        return True


@pytest.mark.parametrize("cls", [Positional, Passing, Named, Renamed, Old])
def test_lookup_allowed_gets_the_request_however_it_takes_it(
    make_client: Any, root: User, site: admin.AdminSite, orders: list[Order], cls: Any
):
    replace(site, Order, cls)

    found = make_client(root, Order).call("search_orders", status="placed")

    assert not found.is_error


def test_a_rule_in_the_views_of_a_site_is_reported(server: MCPServer):
    class Guarded(admin.AdminSite):
        def admin_view(self, view: Any, cacheable: bool = False) -> Any:
            raise NotImplementedError

    site = Guarded("guarded")
    site.register(Order, Orders)
    admin_tools(server=server, site=site, models=[Order])

    (message,) = messages(server)
    assert message.startswith("django_mcp.modeladmin.W002 ")
    assert "admin_view of " in message


def test_methods_of_the_admin_that_take_only_stored_objects_are_described_without_one(
    make_client: Any, root: User, site: admin.AdminSite
):
    class Strict(admin.ModelAdmin):
        def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
            names = ["isbn", "title"] if obj is None else ["isbn", "title", "shelf"]
            assert obj is None or not obj._state.adding
            return [(None, {"fields": names})]

    replace(site, Book, Strict)
    Book.objects.create(isbn="1", title="Emma")
    client = make_client(root, Book)

    assert client.call("get_book", isbn="1").structured["shelf"] is None
    changed = client.call("update_book", isbn="1", title="Persuasion")
    assert changed.structured["title"] == "Persuasion"


# -- choices that not all have


class CloseToAll(admin.SimpleListFilter):
    title = "flag"
    parameter_name = "flag"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        return [("all", "All"), *([("fraud", "Fraud")] if request.user.is_superuser else [])]

    def queryset(self, request: Any, queryset: Any) -> Any:
        return queryset


class Personal(Orders):
    readonly_fields = ["placed_at"]
    fields = ["number", "status", "note", "placed_at"]
    list_filter = ["status", CloseToAll]

    def formfield_for_choice_field(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if request.user.is_superuser:
            kwargs["choices"] = [*Order.Status.choices, ("fraud", "Suspected fraud")]
        return super().formfield_for_choice_field(db_field, request, **kwargs)

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        cls: Any = super().get_form(request, obj, change, **kwargs)
        offered = User.objects.all() if request.user.is_superuser else User.objects.none()
        names = [(user.username, user.username) for user in offered]
        cls.base_fields["note"] = forms.ChoiceField(choices=names, required=False)
        return cls


class PersonalLines(admin.TabularInline):
    model: Any = OrderLine

    def get_formset(self, request: Any, obj: Any = None, **kwargs: Any) -> Any:
        made: Any = super().get_formset(request, obj, **kwargs)
        names = [(1, "fraud")] if request.user.is_superuser else []
        made.form.base_fields["quantity"] = forms.TypedChoiceField(coerce=int, choices=names)
        return made


def test_schemas_tell_no_choices_that_only_some_users_are_offered(
    make_client: Any, make_staff: Callable[..., User], site: admin.AdminSite, root: User
):
    Personal.inlines = [PersonalLines]
    replace(site, Order, Personal)
    staff = make_staff("staff", *(f"shop.{verb}_order" for verb in ("add", "change", "view")))

    tools = make_client(staff).list_tools()

    (create,) = [tool for tool in tools if tool["name"] == "create_order"]
    assert "lines" in create["inputSchema"]["properties"]
    assert "enum" not in create["inputSchema"]["properties"]["status"]
    assert not [tool["name"] for tool in tools if "fraud" in str(tool).lower()]
    assert not [tool["name"] for tool in tools if root.username in str(tool["inputSchema"])]


def test_schemas_tell_the_choices_that_all_users_are_offered(
    make_client: Any, make_staff: Callable[..., User], site: admin.AdminSite
):
    class Written(Orders):
        readonly_fields = ["placed_at"]
        fields = ["number", "status", "note", "placed_at"]

        def get_readonly_fields(self, request: Any, obj: Any = None) -> Any:
            return ["status"] if not request.user.is_superuser else self.readonly_fields

    replace(site, Order, Written)
    staff = make_staff("staff", "shop.add_order", "shop.view_order")

    tools = {tool["name"]: tool["inputSchema"] for tool in make_client(staff).list_tools()}

    assert set(tools["create_order"]["properties"]["status"]["enum"]) == set(Order.Status.values)
    assert tools["search_orders"]["properties"]["state"]["enum"] == ["open", "done"]
