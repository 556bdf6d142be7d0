"""Views of Django REST framework as tools."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.urls import path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page
from rest_framework import generics, renderers, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.views import APIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.test import MCPClient
from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Tag
from tests.support.queries import captured_queries
from tests.support.spellings import UUID_SPELLINGS
from tests.unit.contrib.drf import views

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("api", public=True)


@pytest.fixture
def orders(server: MCPServer) -> MCPServer:
    viewset_tools(views.OrderViewSet, server=server, prefix="orders")
    return server


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob")


@pytest.fixture
def product() -> Product:
    return Product.objects.create(sku="mug", name="Mug", category="kitchen", price="3.50")


def make_order(customer: User, number: str, product: Product | None = None, **more: Any) -> Order:
    order = Order.objects.create(customer=customer, number=number, placed_at=timezone.now(), **more)
    if product is not None:
        OrderLine.objects.create(order=order, product=product, quantity=2, unit_price="3.50")
    return order


class LeavesOut(renderers.JSONRenderer):
    def render(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        kept = {name: value for name, value in data.items() if not name.startswith("_")}
        return super().render(kept, *args, **kwargs)


class Page(renderers.BaseRenderer):
    media_type, format, charset = "text/html", "html", "utf-8"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> str:
        return f"<p>{data['shown']}</p>"


def names(server: MCPServer, user: Any = None) -> list[str]:
    return [each["name"] for each in server.list_tools(user=user)]


def schema(server: MCPServer, name: str) -> dict[str, Any]:
    return server.registry.tools[name].input_schema


def data(server: MCPServer, name: str, user: Any = None, **arguments: Any) -> Any:
    result = server.call_tool(name, arguments, user=user)
    assert not result.is_error, result.raw
    return result.raw["structuredContent"]


def error(server: MCPServer, name: str, user: Any = None, **arguments: Any) -> str:
    result = server.call_tool(name, arguments, user=user)
    assert result.is_error, result.raw
    return result.raw["content"][0]["text"]


# -- which tools there are


def test_each_action_is_a_tool(orders: MCPServer, ada: User):
    assert sorted(names(orders, ada)) == [
        "orders_create",
        "orders_destroy",
        "orders_list",
        "orders_partial_update",
        "orders_retrieve",
        "orders_ship",
        "orders_whoami",
    ]


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ({}, ["orders_partial_update"]),
        ({"exclude": ["partial_update"]}, ["orders_update"]),
        (
            {"actions": ["update", "partial_update"]},
            ["orders_partial_update", "orders_update"],
        ),
    ],
)
def test_an_update_of_all_fields_is_a_tool_if_it_is_named_or_the_only_one(
    server: MCPServer, options: Any, written: list[str]
):
    entries = viewset_tools(views.OrderViewSet, server=server, prefix="orders", **options)

    assert sorted(entry.name for entry in entries if "update" in entry.name) == written


def test_the_methods_become_hints(orders: MCPServer):
    hints = {name: entry.annotations for name, entry in orders.registry.tools.items()}

    said = {name: {hint for hint in each if each[hint]} for name, each in hints.items()}
    assert all(len(each) == 4 for each in hints.values())
    assert said["orders_list"] == {"readOnlyHint", "idempotentHint"}
    assert said["orders_create"] == set()
    assert said["orders_ship"] == {"destructiveHint"}
    assert said["orders_partial_update"] == {"destructiveHint"}
    assert said["orders_destroy"] == {"destructiveHint", "idempotentHint"}


def test_actions_can_be_chosen_and_renamed(server: MCPServer, ada: User):
    viewset_tools(
        views.OrderViewSet,
        server=server,
        actions=["list", "ship"],
        names={"ship": "send_order"},
        descriptions={"ship": "Send it off."},
        annotations={"ship": {"title": "Send", "destructive": True}},
    )

    tools = {each["name"]: each for each in server.list_tools(user=ada)}
    assert sorted(tools) == ["order_list", "send_order"]
    assert tools["send_order"]["description"] == "Send it off."
    assert tools["send_order"]["title"] == "Send"
    assert tools["send_order"]["annotations"]["destructiveHint"] is True


def test_an_unsupported_method_is_no_tool(server: MCPServer):
    class ReadOnly(views.OrderViewSet):
        http_method_names = ("get", "head")

    class NotEvenThat(views.ProductList):
        http_method_names = ()

    entries = viewset_tools(ReadOnly, server=server, prefix="orders")

    assert {each.name for each in entries} == {"orders_list", "orders_retrieve", "orders_whoami"}
    assert viewset_tools(NotEvenThat, server=server) == []


def test_an_unknown_action_is_rejected(server: MCPServer):
    for option in ("actions", "exclude"):
        with pytest.raises(
            ImproperlyConfigured,
            match=rf"OrderViewSet has no action 'shipp', which {option}= names. Did you mean 'ship'\? "
            "It has list, create,",
        ):
            options: dict[str, Any] = {option: ["shipp"]}
            viewset_tools(views.OrderViewSet, server=server, **options)


@pytest.mark.parametrize("option", ["names", "descriptions", "annotations", "serializers", "query"])
def test_an_option_for_an_unknown_action_is_rejected(server: MCPServer, option: str):
    options: dict[str, Any] = {option: {"shipp": None}}
    with pytest.raises(ImproperlyConfigured, match=f"no action 'shipp', which {option}= names"):
        viewset_tools(views.OrderViewSet, server=server, **options)


@pytest.mark.parametrize("view", [Order, test_an_unknown_action_is_rejected, "shop.OrderViewSet"])
def test_anything_but_a_view_is_rejected(server: MCPServer, view: Any):
    with pytest.raises(ImproperlyConfigured, match="takes a view of Django REST framework"):
        viewset_tools(view, server=server)


def test_tools_are_described_by_the_site(orders: MCPServer, ada: User):
    described = {each["name"]: each["description"] for each in orders.list_tools(user=ada)}

    assert described["orders_ship"] == "Ship an order."
    assert described["orders_list"] == "List orders.\n\nOrders are what customers bought."


@pytest.mark.parametrize("has_docstring", [True, False])
@pytest.mark.parametrize("has_model", [True, False])
def test_the_descriptions_of_a_view_differ(server: MCPServer, has_model: bool, has_docstring: bool):
    class NumberSerializer(serializers.Serializer):
        number = serializers.CharField()

    class SoldThings(viewsets.ModelViewSet):
        __doc__ = "What was sold." if has_docstring else None
        serializer_class = views.OrderSerializer if has_model else NumberSerializer

        def get_queryset(self) -> Any:
            return Order.objects.all()

        @action(detail=True, methods=["post"])
        def mark_returned(self, request: Any, pk: Any) -> None: ...

        @action(detail=False)
        def late(self, request: Any) -> None: ...

    entries = viewset_tools(SoldThings, server=server, prefix="")

    one, many = ("order", "orders") if has_model else ("sold things", "sold things objects")
    end = "\n\nWhat was sold." if has_docstring else ""
    assert {entry.name: str(entry.description) for entry in entries} == {
        "list": f"List {many}.{end}",
        "retrieve": f"Get one {one}.{end}",
        "create": f"Create one {one}.{end}",
        "partial_update": f"Change fields of one {one}.{end}",
        "destroy": f"Delete one {one}.{end}",
        "mark_returned": f"Mark returned, for {one}.{end}",
        "late": f"Late, for {many}.{end}",
    }


def test_the_methods_of_a_generic_view_are_described(server: MCPServer):
    class OneProduct(generics.RetrieveUpdateDestroyAPIView):
        """What is sold."""

        queryset = Product.objects.all()
        serializer_class = views.ProductList.serializer_class

    entries = [
        *viewset_tools(views.ProductList, server=server, prefix="all"),
        *viewset_tools(OneProduct, server=server, prefix="one"),
    ]

    assert {entry.name: str(entry.description) for entry in entries} == {
        "all_get": "List products.",
        "one_get": "Get one product.\n\nWhat is sold.",
        "one_patch": "Change fields of one product.\n\nWhat is sold.",
        "one_delete": "Delete one product.\n\nWhat is sold.",
    }


def test_a_view_without_a_queryset_is_a_check_warning(server: MCPServer):
    class Unfinished(viewsets.ModelViewSet):
        serializer_class = views.OrderSerializer

        def retrieve(self, request: Any, pk: Any) -> Response:
            """Get one that is kept elsewhere."""
            return Response({"pk": pk})

    class UnfinishedList(generics.ListCreateAPIView):
        serializer_class = views.OrderSerializer

    class Found(viewsets.ModelViewSet):
        serializer_class = views.OrderSerializer

        def get_object(self) -> Any: ...

    assert {entry.name for entry in viewset_tools(Unfinished, server=server, prefix="a")} == {
        "a_create",
        "a_retrieve",
    }
    assert {entry.name for entry in viewset_tools(UnfinishedList, server=server, prefix="b")} == {
        "b_post"
    }
    assert "c_list" not in {entry.name for entry in viewset_tools(Found, server=server, prefix="c")}
    messages = {
        each.msg.partition(" of ")[0]: each
        for each in run_checks(tags=["django_mcp"])
        if each.id == "django_mcp.drf.W002" and ".Unfinished " in each.msg
    }
    assert set(messages) == {
        f"The action {name!r}" for name in ("list", "partial_update", "destroy")
    }
    for each in messages.values():
        assert "its view has neither a queryset nor a get_queryset()" in each.msg
        assert str(each.hint).startswith("Write queryset = ... in ")


# -- visibility


def test_tools_denied_by_permission_classes_are_hidden(orders: MCPServer, ada: User):
    viewset_tools(views.StaffViewSet, server=orders)
    staff = User.objects.create_user("staff", is_staff=True)

    assert names(orders, AnonymousUser()) == []
    assert "staff_list" not in names(orders, ada)
    assert "staff_list" in names(orders, staff)
    assert data(orders, "staff_list", staff) == {"results": ["a", "b"]}
    with pytest.raises(LookupError, match="Unknown tool"):
        orders.call_tool("staff_list", {}, user=ada)


def test_a_permission_is_required_in_addition(server: MCPServer, ada: User):
    viewset_tools(views.OrderViewSet, server=server, permission="shop.view_order")
    boss = User.objects.create_superuser("boss")

    assert names(server, ada) == []
    assert "order_list" in names(server, boss)


def test_the_permission_of_the_server_is_not_replaced(ada: User):
    server = MCPServer("closed", public=True, permission="shop.view_order")
    viewset_tools(views.OrderViewSet, server=server)

    assert names(server, ada) == []


def test_listed_if_replaces_permission_classes_only_in_lists(server: MCPServer, ada: User):
    viewset_tools(views.StaffViewSet, server=server, listed_if=lambda user: True)

    assert names(server, ada) == ["staff_list"]
    assert error(server, "staff_list", ada) == (
        "You do not have permission to perform this action."
    )


# -- arguments


def test_query_parameters_become_arguments(orders: MCPServer):
    found = schema(orders, "orders_list")["properties"]

    assert sorted(found) == [
        "cursor",
        "ordering",
        "page",
        "page_size",
        "placed_at_after",
        "placed_at_before",
        "search",
        "status",
    ]
    assert found["status"]["enum"] == ["placed", "shipped", "cancelled"]
    assert found["ordering"]["enum"] == ["number", "-number", "placed_at", "-placed_at"]
    assert found["page"]["minimum"] == 1
    assert found["page_size"]["maximum"] == 100


def test_serializers_become_arguments(orders: MCPServer):
    found = schema(orders, "orders_create")

    assert found["required"] == ["placed_at", "lines"]
    assert "number" not in found["properties"]
    assert found["properties"]["secret"] == {
        "type": "string",
        "description": "Kept from readers.",
    }
    line = found["properties"]["lines"]["items"]
    assert line["required"] == ["product", "quantity", "unit_price"]
    assert line["properties"]["quantity"]["type"] == "integer"


def test_partial_updates_require_only_the_lookup(orders: MCPServer):
    assert schema(orders, "orders_partial_update")["required"] == ["number"]


def test_an_extra_action_reads_its_declared_parameters(orders: MCPServer):
    found = schema(orders, "orders_ship")

    assert found["properties"]["carrier"] == {"type": "string", "enum": ["post", "bike"]}
    assert sorted(found["required"]) == ["carrier", "number"]
    assert schema(orders, "orders_whoami")["properties"] == {}


# -- calls


def test_lists_are_filtered_searched_ordered_and_paged(orders: MCPServer, ada: User):
    for number in ("A-1", "A-2", "A-3", "B-1"):
        make_order(ada, number)
    make_order(ada, "A-9", status="shipped")

    found = data(
        orders, "orders_list", ada, search="A-", status="placed", ordering="-number", page=1
    )

    assert [each["number"] for each in found["results"]] == ["A-3", "A-2"]
    assert (found["count"], found["next"], found["previous"]) == (3, {"page": 2}, None)
    assert [each["number"] for each in data(orders, "orders_list", ada, page=2)["results"]] == [
        "A-3",
        "A-9",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        {"page": -1},
        {"page_size": 10**9},
        {"ordering": "customer"},
        {"search": "x " * 101},
    ],
)
def test_unknown_pages_and_orderings_are_rejected(
    orders: MCPServer, ada: User, arguments: dict[str, Any]
):
    assert next(iter(arguments)) in error(orders, "orders_list", ada, **arguments)


def test_a_page_after_the_last_has_a_readable_error(orders: MCPServer, ada: User):
    assert error(orders, "orders_list", ada, page=7) == "Invalid page."


def test_an_object_is_created_as_the_user(orders: MCPServer, ada: User, product: Product):
    created = data(
        orders,
        "orders_create",
        ada,
        placed_at="2026-01-01T10:00:00Z",
        lines=[{"product": "mug", "quantity": 2, "unit_price": "3.50"}],
    )

    order = Order.objects.get(number=created["number"])
    assert order.customer == ada
    assert created["lines"] == [{"product": "mug", "quantity": 2, "unit_price": "3.50"}]


def test_all_errors_come_back_by_field(orders: MCPServer, ada: User, product: Product):
    text = error(
        orders,
        "orders_create",
        ada,
        placed_at="yesterday",
        note="Hey!",
        lines=[{"product": "cup", "quantity": 2, "unit_price": "0.123"}],
    )

    assert "placed_at: Datetime has wrong format" in text
    assert "note: No shouting." in text
    assert "lines.0.product: Object with sku=cup does not exist." in text
    assert "lines.0.unit_price: Ensure that there are no more than 2 decimal places." in text
    assert not Order.objects.exists()


def test_objects_of_other_users_are_rejected_by_the_view(
    orders: MCPServer, ada: User, bob: User, product: Product
):
    make_order(ada, "A-1")

    assert data(orders, "orders_retrieve", ada, number="A-1")["number"] == "A-1"
    for tool in ("orders_retrieve", "orders_destroy", "orders_partial_update"):
        assert error(orders, tool, bob, number="A-1") == "This order is not yours."
    assert error(orders, "orders_ship", bob, number="A-1", carrier="post") == (
        "This order is not yours."
    )
    assert "No Order matches" in error(orders, "orders_retrieve", ada, number="A-2")
    assert Order.objects.filter(number="A-1", status="placed").exists()


def test_objects_are_changed_and_deleted(orders: MCPServer, ada: User):
    make_order(ada, "A-1")

    changed = data(orders, "orders_partial_update", ada, number="A-1", note="Hi")
    assert changed["note"] == "Hi"
    assert data(orders, "orders_destroy", ada, number="A-1") == {"result": None}
    assert not Order.objects.exists()


def test_writes_of_a_rejected_action_are_rolled_back(orders: MCPServer, ada: User):
    make_order(ada, "A-1")

    assert error(orders, "orders_ship", ada, number="A-1", carrier="bike") == "There is no bike."
    assert Order.objects.get().status == "placed"
    assert data(orders, "orders_ship", ada, number="A-1", carrier="post")["by"] == "ada"
    assert Order.objects.get().status == "shipped"


def test_a_view_has_the_initkwargs_of_the_router(orders: MCPServer, ada: User):
    assert data(orders, "orders_whoami", ada) == {
        "user": "ada",
        "action": "whoami",
        "kwargs": {},
        "format": None,
        "authenticator": "_CallAuthentication",
    }


def test_constant_url_kwargs_are_no_arguments(server: MCPServer, ada: User):
    viewset_tools(views.OrderViewSet, server=server, actions=["whoami"], kwargs={"version": "v2"})

    assert data(server, "order_whoami", ada)["kwargs"] == {"version": "v2"}


@pytest.mark.parametrize(("name", "is_told"), [("pk", False), ("pkk", True)])
def test_a_constant_that_no_url_has_is_reported(
    server: MCPServer, settings: Any, name: str, is_told: bool
):
    settings.ROOT_URLCONF = __name__
    viewset_tools(views.OrderViewSet, server=server, prefix=f"one_{name}", kwargs={name: "1"})

    told = [
        each
        for each in run_checks(tags=["django_mcp"])
        if each.id == "django_mcp.drf.W007" and f"'{name}' in kwargs=" in each.msg
    ]

    assert len(told) == is_told


def test_throttles_apply(server: MCPServer):
    viewset_tools(views.ThrottledView, server=server)

    assert error(server, "throttled_get") == (
        "Request was throttled. Expected available in 30 seconds."
    )


def test_a_list_without_pages_is_limited(server: MCPServer, product: Product):
    for number in range(4):
        Product.objects.create(sku=f"p{number}", name="P", category="garden", price=1)
    viewset_tools(views.ProductList, server=server, max_results=3)

    found = data(server, "product_get")

    assert [each["sku"] for each in found["results"]] == ["mug", "p0", "p1"]
    rest = data(server, "product_get", cursor=found["next_cursor"], limit=2)
    assert [each["sku"] for each in rest["results"]] == ["p2", "p3"]
    assert (rest["total"], "next_cursor" in rest) == (5, False)


def test_a_list_needs_the_same_number_of_queries_as_the_view(
    orders: MCPServer, ada: User, product: Product
):
    for number in range(5):
        make_order(ada, f"A-{number}", product)
    data(orders, "orders_list", ada)  # loads the permissions
    request = APIRequestFactory().get("/")
    force_authenticate(request, ada)
    list_orders = views.OrderViewSet.as_view({"get": "list"})

    with captured_queries() as of_view:
        list_orders(request).render()
    with captured_queries() as of_tool:
        data(orders, "orders_list", ada)

    assert len(of_view) == 4, of_view  # count, orders, lines, products
    assert len(of_tool) == 4 + 1, of_tool  # the user, as stored now


# -- unsupported views


def problems(server: MCPServer, view: Any, **options: Any) -> list[Any]:
    viewset_tools(view, server=server, **options)
    found = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert {each.id for each in found} <= {"django_mcp.drf.W002"}
    return found


def test_a_view_that_needs_a_request_is_a_check_warning(server: MCPServer):
    found = problems(server, views.NeedsData, actions=["create"])

    (problem,) = found
    assert problem.msg == (
        "The action 'create' of tests.unit.contrib.drf.views.NeedsData is no tool: "
        "its view failed without a request: KeyError: 'kind'."
    )
    assert "serializers={'create': YourSerializer}" in problem.hint


def test_the_site_can_declare_what_such_a_view_reads(server: MCPServer):
    assert not problems(
        server,
        views.NeedsData,
        actions=["create"],
        serializers={"create": views.ShipSerializer},
    )
    assert list(schema(server, "order_create")["properties"]) == ["carrier"]


def test_duplicate_argument_names_are_a_check_warning(server: MCPServer):
    found = problems(server, views.Clashing, actions=["update"], rename={"body.status": "number"})

    assert "path.number and body.status would both be the argument 'number'" in found[0].msg
    assert "rename={'body.status': 'new_status'}" in found[0].hint


def test_a_key_that_can_be_changed_has_a_name_of_its_own(server: MCPServer, ada: User):
    make_order(ada, "A-1")
    assert not problems(server, views.Clashing, actions=["partial_update"])

    assert set(schema(server, "order_partial_update")["properties"]) == {
        "number", "new_number", "status",
    }  # fmt: skip
    changed = data(server, "order_partial_update", ada, number="A-1", new_number="A-2")
    assert changed["number"] == "A-2"
    make_order(ada, "A-1")
    assert error(server, "order_partial_update", ada, number="A-1", new_number="A-2") == (
        "new_number: order with this number already exists."
    )


def test_an_argument_can_be_renamed(server: MCPServer, ada: User):
    make_order(ada, "A-1")
    assert not problems(server, views.Clashing, actions=["update"], rename={"body.number": "other"})

    changed = data(server, "order_update", ada, number="A-1", other="A-2")

    assert changed["number"] == "A-2"


# -- annotations of drf-spectacular


def test_drf_spectacular_annotations_are_used(server: MCPServer):
    viewset_tools(views.Annotated, server=server, prefix="sum")

    tools = {each["name"]: each for each in server.list_tools()}
    assert sorted(tools) == ["sum_sent", "sum_total"]
    assert tools["sum_total"]["title"] == "Sums"
    assert tools["sum_total"]["description"] == "Sum up the orders of some days."
    assert tools["sum_total"]["inputSchema"]["properties"] == {
        "days": {"type": "integer", "description": "How many."}
    }
    assert tools["sum_total"]["inputSchema"]["required"] == ["days"]
    assert data(server, "sum_total", days=4) == {"result": 8}
    assert tools["sum_sent"]["description"] == "Tell what was sent."
    assert data(server, "sum_sent", carrier="post") == {"carrier": "post"}


# -- files


def test_a_required_file_is_a_check_warning(server: MCPServer):
    found = problems(
        server,
        views.Files,
        actions=["upload"],
        serializers={"upload": views.Files.FileSerializer},
    )

    assert "the field file of its serializer is a file, which is required" in found[0].msg


def test_an_optional_file_is_left_out(server: MCPServer):
    viewset_tools(
        views.Files,
        server=server,
        actions=["upload"],
        serializers={"upload": views.Files.OptionalFileSerializer},
        path={"folder": {"type": "string", "pattern": "^[a-z]+$"}},
    )

    assert list(schema(server, "files_upload")["properties"]) == ["folder", "name"]
    sent = {"folder": "inbox", "name": "x"}
    assert server.call_tool("files_upload", sent).raw["structuredContent"] == sent
    (found,) = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert found.id == "django_mcp.drf.I001"
    assert found.msg.endswith("views.Files takes files, which its tool leaves out: file.")


def test_a_file_response_becomes_a_file(server: MCPServer):
    viewset_tools(views.Files, server=server, actions=["download"])

    (block,) = server.call_tool("files_download", {}).raw["content"]

    assert block["resource"]["mimeType"] == "text/csv"
    assert block["resource"]["text"] == "a,b"


@pytest.mark.filterwarnings("ignore:Accessing the database during app initialization")
def test_a_view_whose_tables_are_missing_is_a_check_warning(server: MCPServer):
    """Otherwise `manage.py migrate`, which runs the checks first, could not create the tables."""
    viewset_tools(views.FieldsFromTable, server=server, actions=["create", "list"])

    (problem,) = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert problem.id == "django_mcp.drf.W001"
    assert "no such table" in problem.msg or "does not exist" in problem.msg
    assert problem.hint == "Run manage.py migrate and restart the server."


def test_a_check_problem_does_not_keep_a_server_alive():
    server = MCPServer("short-lived", public=True)
    viewset_tools(views.NeedsData, server=server, actions=["create"])
    kept = weakref.ref(server)

    del server
    gc.collect()

    assert kept() is None


def test_a_decimal_with_a_huge_exponent_does_not_reach_the_serializer(server: MCPServer):
    class Sent(serializers.Serializer):
        number = serializers.DecimalField(max_digits=None, decimal_places=None)

    class Echo(viewsets.ViewSet):
        serializer_class = Sent

        def create(self, request: Any) -> Response:
            sent = Sent(data=request.data)
            sent.is_valid(raise_exception=True)
            return Response(sent.data)

    viewset_tools(Echo, server=server, prefix="", serializers={"create": Sent})

    assert data(server, "create", number="1E3") == {"number": "1000"}
    for number in ("1E1000000", "1e-1000000", "9" * 101):
        assert "/number: " in error(server, "create", number=number)


def test_each_method_of_an_action_is_a_tool(server: MCPServer):
    class Stars(viewsets.ViewSet):
        permission_classes = ()
        serializer_class = None

        @action(detail=False, methods=["post", "delete"], serializer_class=serializers.Serializer)
        def star(self, request: Any) -> Response:
            return Response({"method": request.method})

        @star.mapping.put
        def star_again(self, request: Any) -> Response:
            return Response({"method": request.method})

    viewset_tools(Stars, server=server, prefix="stars")
    viewset_tools(Stars, server=server, prefix="some", actions=["star_delete"])

    assert names(server) == [
        "stars_star",
        "stars_star_delete",
        "stars_star_again",
        "some_star_delete",
    ]
    client = MCPClient(server)
    assert client.call("stars_star").structured == {"method": "POST"}
    assert client.call("stars_star_delete").structured == {"method": "DELETE"}
    assert client.call("stars_star_again").structured == {"method": "PUT"}
    assert not [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        ([renderers.JSONRenderer, Page], {"shown": 1, "_internal": "secret"}),
        ([Page, renderers.JSONRenderer], {"shown": 1, "_internal": "secret"}),
        ([LeavesOut], {"shown": 1}),
        ([Page, LeavesOut], {"shown": 1}),
        ([Page], {"status": 200}),
    ],
)
def test_a_result_has_no_more_than_the_view_renders(
    server: MCPServer, classes: list[Any], told: dict[str, Any]
):
    class Rendered(APIView):
        permission_classes = ()
        renderer_classes = classes

        def get(self, request: Any) -> Any:
            assert request.accepted_renderer.format == ("html" if classes == [Page] else "json")
            return Response({"shown": 1, "_internal": "secret"})

    viewset_tools(Rendered, server=server)
    found = MCPClient(server).call("rendered_get")

    assert found.structured == told
    if classes == [Page]:
        assert found.raw["content"][0]["resource"]["text"] == "<p>1</p>"


class TagSerializer(serializers.ModelSerializer):
    class Meta:
        model = Tag
        fields = ("id", "name")


class MarkedTags(viewsets.ModelViewSet):
    serializer_class = TagSerializer
    permission_classes = ()

    @action(detail=True, methods=["post"])
    def mark(self, request: Any, **variables: Any) -> Any:
        tag = self.get_object()
        tag.name = "marked"
        tag.save()
        return Response({"marked": True})


class Tags(MarkedTags):
    queryset = Tag.objects.all()


class TagsOfUser(MarkedTags):
    """Has a queryset that its class does not name."""

    lookup_field = "id"
    lookup_url_kwarg = "tag"

    def get_queryset(self) -> Any:
        return Tag.objects.exclude(name=self.request.user.username)

    def get_object(self) -> Any:
        if self.kwargs["tag"] == "first":
            return self.get_queryset().first()
        return super().get_object()


@pytest.mark.parametrize("spell", UUID_SPELLINGS)
@pytest.mark.parametrize(("view", "key"), [(Tags, "pk"), (TagsOfUser, "tag")])
def test_security_a_check_gets_a_key_as_the_model_has_it(
    server: MCPServer, ada: User, view: Any, key: str, spell: Any
):
    kept, free = (Tag.objects.create(name=name) for name in ("kept", "free"))

    def is_free(user: User, pk: Any = None, tag: Any = None) -> bool:
        return kept.pk not in (pk, tag)

    viewset_tools(view, server=server, prefix="tag", check=is_free)

    for tool in ("tag_retrieve", "tag_partial_update", "tag_mark", "tag_destroy"):
        assert error(server, tool, ada, **{key: spell(kept.pk)}) == "Not found."
        data(server, tool, ada, **{key: spell(free.pk)})
    assert [tag.name for tag in Tag.objects.all()] == ["kept"]


def test_a_check_gets_what_only_the_view_knows_to_be_a_key(server: MCPServer, ada: User):
    Tag.objects.create(name="only")
    viewset_tools(
        TagsOfUser, server=server, prefix="tag", check=lambda user, tag="": tag == "first"
    )

    assert data(server, "tag_retrieve", ada, tag="first")["name"] == "only"
    assert error(server, "tag_retrieve", ada, tag="last") == "Not found."


def test_a_page_that_a_renderer_of_the_site_wrote_is_found_in_a_cache(
    server: MCPServer, settings: Any
):
    settings.ROOT_URLCONF = __name__

    viewset_tools(Cached, server=server)
    client = MCPClient(server)

    assert [client.call("cached_get").structured for _ in range(2)] == [{"shown": 1}] * 2


@method_decorator(cache_page(60), name="dispatch")
class Cached(APIView):
    permission_classes = ()
    renderer_classes = (LeavesOut,)

    def get(self, request: Any) -> Any:
        return Response({"shown": 1, "_internal": "secret"})


urlpatterns = [
    path("cached/", Cached.as_view()),
    path("orders/<pk>/", views.OrderViewSet.as_view({"get": "retrieve"})),
]
