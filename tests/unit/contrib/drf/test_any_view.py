"""Views as sites write them: those that need a caller, those whose URLs say more, and what they return."""

from __future__ import annotations

import datetime
from contextlib import nullcontext
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any

import django_filters
import jsonschema
import pytest
from django.contrib.auth.models import User
from django.core import checks
from django.core.checks import run_checks
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.urls import include, path
from django.utils import timezone
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import (
    filters,
    generics,
    pagination,
    permissions,
    renderers,
    serializers,
    viewsets,
)
from rest_framework.decorators import action, api_view
from rest_framework.response import Response
from rest_framework.routers import DefaultRouter
from rest_framework.views import APIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from example_project.shop.models import Order, Product

pytestmark = pytest.mark.django_db


class ProductSerializer(serializers.ModelSerializer):
    class Meta:
        model = Product
        fields = ("sku", "name", "price")


class OrderSerializer(serializers.ModelSerializer):
    customer = serializers.HiddenField(default=serializers.CurrentUserDefault())
    by = serializers.CharField(source="customer.username", read_only=True)
    count = serializers.SerializerMethodField()

    class Meta:
        model = Order
        fields = ("number", "note", "placed_at", "customer", "by", "count")

    def get_count(self, order: Order) -> int:
        return order.lines.count()


class Pages(pagination.CursorPagination):
    ordering = "number"
    page_size = 2


class OwnFilter(django_filters.FilterSet):
    by = django_filters.ModelChoiceFilter(
        field_name="customer", queryset=lambda request: User.objects.filter(pk=request.user.pk)
    )

    class Meta:
        model = Order
        fields = ("note",)


class OwnOrders(viewsets.ModelViewSet):
    serializer_class = OrderSerializer
    permission_classes = (permissions.IsAuthenticated,)
    filter_backends: Any = (DjangoFilterBackend, filters.SearchFilter, filters.OrderingFilter)
    filterset_class: Any = OwnFilter
    search_fields = ("number",)
    ordering_fields = "__all__"
    pagination_class = Pages
    lookup_field = "number"

    def get_queryset(self) -> Any:
        return Order.objects.filter(customer=self.request.user)

    @action(detail=False)
    def recent(self, request: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class FieldsOfCaller(OwnOrders):
    filterset_class = None
    filterset_fields = ("note",)

    def get_queryset(self) -> Any:
        return Order.objects.filter(customer=self.request.user.profile)

    def get_serializer_class(self) -> Any:
        return OrderSerializer if self.request.user.get_username() == "" else ProductSerializer


class Broken(filters.BaseFilterBackend):
    def get_schema_operation_parameters(self, view: Any) -> Any:
        raise KeyError("tenant")


class PartlyBroken(OwnOrders):
    filter_backends = (Broken, filters.SearchFilter)


class Lines(viewsets.ModelViewSet):
    """Of a nested router: its URL has the number of the order."""

    class LineSerializer(serializers.Serializer):
        quantity = serializers.IntegerField()

    serializer_class = LineSerializer
    permission_classes: Any = ()

    def get_queryset(self) -> Any:
        return Order.objects.get(number=self.kwargs["order_number"]).lines.all()

    def get_serializer_context(self) -> Any:
        order = Order.objects.get(number=self.kwargs["order_number"])
        return {**super().get_serializer_context(), "order": order}


class Bound(viewsets.GenericViewSet):
    queryset = Product.objects.order_by("sku")
    serializer_class = ProductSerializer
    permission_classes = ()

    def listing(self, request: Any) -> Response:
        """List what is sold."""
        return Response(self.get_serializer(self.get_queryset(), many=True).data)

    def add(self, request: Any) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        serializer.save(category="kitchen")
        return Response(serializer.data, status=201)


class OtherBound(Bound):
    pass


class Me(generics.RetrieveUpdateAPIView):
    class UserSerializer(serializers.ModelSerializer):
        class Meta:
            model = User
            fields = ("username", "email")
            read_only_fields = ("username",)

    serializer_class = UserSerializer
    permission_classes = (permissions.IsAuthenticated,)

    def get_object(self) -> Any:
        return self.request.user


class Archive(APIView):
    permission_classes = ()

    def get(self, request: Any, year: int, month: int | None = None) -> Response:
        return Response({"year": year, "month": month})


@api_view(["GET"])
def greet(request: Any, who: str) -> Response:
    """Greet somebody."""
    return Response({"hello": who})


@api_view(["GET", "POST"])
def weigh_all(request: Any) -> Response:
    """Weigh what the query names."""
    unit = request.query_params.get("unit", "kg")
    return Response({"unit": unit, "all": request.GET["all"]})


@api_view(["POST"])
def send_all(request: Any) -> Response:
    """Send what the body names."""
    return Response({"to": request.data["to"]})


@api_view(["POST"])
def count_all(request: Any) -> Response:
    """Read nothing."""
    return Response({"count": 1})


@extend_schema(summary="All")
@api_view(["POST"])
def document_all(request: Any) -> Response:
    """Read what the body names, as its description tells."""
    return Response({"to": request.data["to"]})


router = DefaultRouter(trailing_slash=False)
router.register("orders", OwnOrders, basename="order")

urlpatterns = [
    path("api/", include(router.urls)),
    path("orders/<order_number>/lines", Lines.as_view({"get": "list", "post": "create"})),
    path("orders/<order_number>/lines/<pk>", Lines.as_view({"get": "retrieve"})),
    path("bound/", Bound.as_view({"get": "listing", "post": "add"})),
    path("me/", Me.as_view()),
    path("archive/<int:year>/", Archive.as_view()),
    path("archive/<int:year>/<int:month>/", Archive.as_view()),
    path("greet/<slug:who>/", greet),
    path("weigh-all/", weigh_all),
    path("send-all/", send_all),
    path("count-all/", count_all),
    path("document-all/", document_all),
]


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0, "VALIDATE_OUTPUT": True}
    settings.ROOT_URLCONF = __name__


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("any", public=True)


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", email="ada@example.com")


def make_order(customer: User, number: str) -> Order:
    return Order.objects.create(customer=customer, number=number, placed_at=timezone.now())


def tools(server: MCPServer, user: Any = None) -> dict[str, Any]:
    return {each["name"]: each for each in server.list_tools(user=user)}


def properties(server: MCPServer, name: str, user: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = tools(server, user)[name]["inputSchema"].get("properties", {})
    return found


def data(server: MCPServer, name: str, user: Any = None, /, **arguments: Any) -> Any:
    """Return the result of a call, which its output schema describes."""
    result = server.call_tool(name, arguments, user=user)
    assert not result.is_error, result.raw
    content = result.raw["structuredContent"]
    jsonschema.validate(content, tools(server, user)[name]["outputSchema"])
    return content


def error(server: MCPServer, name: str, user: Any = None, /, **arguments: Any) -> str:
    result = server.call_tool(name, arguments, user=user)
    assert result.is_error, result.raw
    text: str = result.raw["content"][0]["text"]
    return text


def told(server: MCPServer) -> list[Any]:
    return [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]


def test_decimals_of_a_response_have_no_exponent(server: MCPServer):
    class Sums(APIView):
        permission_classes = ()

        def get(self, request: Any) -> Response:
            sums = [Decimal("0E-10"), Decimal("1E+2"), Decimal("2.50"), Decimal("1E+5000")]
            return Response({"sums": sums, "one": sums[0], "rows": [{"sum": sums[1]}]})

    viewset_tools(Sums, server=server, prefix="sums")

    assert data(server, "sums_get") == {
        "sums": ["0.0000000000", "100", "2.50", "1E+5000"],
        "one": "0.0000000000",
        "rows": [{"sum": "100"}],
    }


# -- views that need a caller


def test_the_filters_of_a_queryset_that_needs_the_user_are_arguments(server: MCPServer, ada: User):
    viewset_tools(OwnOrders, server=server, prefix="orders")
    make_order(ada, "A-1")
    make_order(User.objects.create_user("bob"), "B-1")

    found = properties(server, "orders_list", ada)
    assert set(found) == {"note", "by", "search", "ordering", "cursor", "row_cursor"}
    assert "-placed_at" in found["ordering"]["enum"]
    for arguments in ({}, {"by": ada.pk}, {"search": "A"}, {"ordering": "-number"}, {"note": ""}):
        page = data(server, "orders_list", ada, **arguments)
        assert [each["number"] for each in page["results"]] == ["A-1"], arguments
    assert told(server) == []


def test_what_a_view_reads_of_its_user_is_read_for_one_who_has_nothing(
    server: MCPServer, ada: User
):
    viewset_tools(FieldsOfCaller, server=server, prefix="own", actions=["list", "create"])

    assert set(properties(server, "own_list", ada)) == {
        "note",
        "search",
        "ordering",
        "cursor",
        "row_cursor",
    }
    assert set(properties(server, "own_create", ada)) == {"number", "note", "placed_at"}
    assert told(server) == []


def find_profile(user: Any) -> Any:
    """Return what `user.profile` is of a row that refers to its user: with none, it fails as such a relation."""
    if user.pk:
        return SimpleNamespace(customers=[user], is_manager=user.is_staff)
    raise type("RelatedObjectDoesNotExist", (User.DoesNotExist, AttributeError), {})


def test_what_a_view_reads_of_rows_of_its_user_is_read_for_one_without_rows(
    server: MCPServer, ada: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(User, "profile", property(find_profile), raising=False)

    class Chosen(OrderSerializer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            profile = self.context["request"].user.profile
            self.fields["of"] = serializers.PrimaryKeyRelatedField(
                queryset=User.objects.filter(pk=profile.company.owner), required=False
            )
            if profile.is_manager:
                self.fields["discount"] = serializers.IntegerField()

    class OfCompany(OwnOrders):
        filterset_class = None
        serializer_class = Chosen

        def get_queryset(self) -> Any:
            return Order.objects.filter(customer__in=self.request.user.profile.customers)

    viewset_tools(OfCompany, server=server, prefix="own", actions=["list", "create"])
    make_order(ada, "A-1")

    assert told(server) == []
    assert set(properties(server, "own_list", ada)) == {
        "search",
        "ordering",
        "cursor",
        "row_cursor",
    }
    assert set(properties(server, "own_create", ada)) == {"number", "note", "placed_at", "of"}


def test_choices_that_a_filter_reads_from_the_database_are_not_told(server: MCPServer, ada: User):
    User.objects.create_user("bob")

    def list_customers() -> list[tuple[str, str]]:
        return [(user.username, user.username) for user in User.objects.all()]

    class Chosen(django_filters.FilterSet):
        by = django_filters.ChoiceFilter(
            field_name="customer__username", choices=list_customers, label="Customer"
        )
        notes = django_filters.MultipleChoiceFilter(
            field_name="note", choices=list_customers, conjoined=True
        )

        class Meta:
            model = Order
            fields = ("status",)

    class ChosenOrders(OwnOrders):
        filterset_class = Chosen

    viewset_tools(ChosenOrders, server=server, prefix="orders", actions=["list"])
    make_order(ada, "A-1")

    found = properties(server, "orders_list", ada)

    assert "bob" not in str(found)
    assert found["by"]["description"] == "Customer"
    assert found["notes"]["maxItems"] == 20
    assert set(found["status"]["enum"]) == set(Order.Status.values)
    (order,) = data(server, "orders_list", ada, by="ada")["results"]
    assert order["number"] == "A-1"


def test_a_view_that_refuses_a_request_before_it_is_read_stops_no_other(
    server: MCPServer, ada: User
):
    class Early(OwnOrders):
        def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            if not request.user.is_staff:
                raise PermissionDenied
            return super().initialize_request(request, *args, **kwargs)

    viewset_tools(Early, server=server, prefix="early", actions=["list"])

    assert "early_list" not in tools(server, ada)
    (problem,) = told(server)
    assert problem.id == "django_mcp.drf.W002"


def test_a_tool_lacks_what_a_filter_backend_cannot_tell(server: MCPServer, ada: User):
    viewset_tools(PartlyBroken, server=server, prefix="own", actions=["list"])

    assert set(properties(server, "own_list", ada)) == {"search", "cursor", "row_cursor"}
    (problem,) = told(server)
    assert (problem.id, type(problem)) == ("django_mcp.drf.W004", checks.Warning)
    assert "lacks arguments: those of Broken, which failed with KeyError: 'tenant'" in problem.msg


def test_nothing_about_a_view_is_an_error(server: MCPServer):
    class NeedsAll(viewsets.ModelViewSet):
        queryset = Order.objects.all()

        def get_serializer_class(self) -> Any:
            return {"order": OrderSerializer}[self.request.data["kind"]]

    class NoQueryset(generics.ListAPIView):
        serializer_class = OrderSerializer

    viewset_tools(NeedsAll, server=server, prefix="a")
    viewset_tools(NoQueryset, server=server, prefix="b")

    found = told(server)
    assert {each.id for each in found} == {"django_mcp.drf.W002"}
    assert not any(each.is_serious() for each in found)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_atomic", [False, True])
def test_a_view_that_is_read_writes_nothing(server: MCPServer, ada: User, is_atomic: bool):
    class Counting(OwnOrders):
        def get_queryset(self) -> Any:
            Product.objects.get_or_create(
                sku="visit", defaults={"name": "V", "category": "garden", "price": 1}
            )
            return super().get_queryset()

        def get_serializer_class(self) -> Any:
            Product.objects.update(name="Seen")
            return OrderSerializer

    Product.objects.create(sku="mug", name="Mug", category="kitchen", price="3.50")
    with transaction.atomic() if is_atomic else nullcontext():
        viewset_tools(Counting, server=server, prefix="own", actions=["list", "create"])
        assert Product.objects.count() == 1

    assert list(Product.objects.values_list("sku", "name")) == [("mug", "Mug")]
    assert "ordering" in properties(server, "own_list", ada)
    (problem,) = told(server)
    assert "'create' of" in problem.msg
    assert "WriteRefused: It writes to the database" in problem.msg


@pytest.mark.parametrize("query", [{}, {"list": {"status": {"type": "string"}}}])
def test_parameters_that_only_the_code_of_a_view_names_are_told(server: MCPServer, query: Any):
    class Chosen(viewsets.ReadOnlyModelViewSet):
        serializer_class = OrderSerializer

        def get_queryset(self) -> Any:
            return Order.objects.filter(status=self.request.query_params.get("status", "placed"))

        @action(detail=False)
        def late(self, request: Any) -> Any:
            params = request.GET
            return Response([params.get("days"), params["until"], params.getlist("shop")])

    viewset_tools(Chosen, server=server, prefix="chosen", exclude=["retrieve"], query=query)

    found = [each for each in told(server) if each.id == "django_mcp.drf.I002"]
    assert len(found) == (1 if query else 2)
    assert "reads parameters of the query in late() and get_queryset()" in found[-1].msg
    assert (
        found[-1].hint
        == "Name them: query={'late': {"
        + ", ".join(
            f"'{name}': {{'type': 'string'}}" for name in ("days", "until", "shop", "status")
        )
        + "}}."
    )


def test_parameters_that_a_view_looks_up_by_a_variable_are_told(server: MCPServer):
    class Chosen(viewsets.ReadOnlyModelViewSet):
        serializer_class = OrderSerializer
        parameter = "status"

        def get_queryset(self) -> Any:
            return Order.objects.filter(status=self.request.query_params.get(self.parameter, ""))

    viewset_tools(Chosen, server=server, prefix="chosen", exclude=["retrieve"])

    (found,) = [each for each in told(server) if each.id == "django_mcp.drf.I002"]
    assert found.hint == (
        "Name them: query={'list': {'NAME': {'type': 'string'}}}, with each parameter in place of NAME."
    )


class Weight(serializers.Serializer[Any]):
    kilos = serializers.DecimalField(max_digits=5, decimal_places=2)


class Weighing(viewsets.GenericViewSet):
    queryset = Product.objects.all()
    permission_classes = ()
    serializer_class = ProductSerializer

    @action(detail=True, methods=["post"])
    def weigh(self, request: Any, pk: str) -> Response:
        return Response({"kilos": request.data["kilos"]})

    @action(detail=True, methods=["post"])
    def rename(self, its: Any, pk: str) -> Response:
        return Response([name for name in ("name", "sku") if its.POST.get(name)])

    @action(detail=True, methods=["delete"])
    def drop(self, request: Any, pk: str) -> Response:
        return Response({"why": (lambda: self.request.data.get("why"))()})

    @action(detail=True, methods=["post"])
    def reorder(self, request: Any, pk: str) -> Response:
        return Response({"data": self.get_serializer().data})

    @action(detail=True, methods=["post"], serializer_class=Weight)
    def weigh_well(self, request: Any, pk: str) -> Response:
        return Response(request.data)


@pytest.mark.parametrize(
    ("given", "lacking"),
    [
        ({}, ["weigh", "rename", "drop"]),
        ({"weigh": Weight, "rename": None}, ["drop"]),
    ],
)
def test_actions_that_read_a_body_that_nothing_describes_are_told(
    server: MCPServer, given: Any, lacking: list[str]
):
    viewset_tools(Weighing, server=server, prefix="weighing", serializers=given)

    found = [each for each in told(server) if each.id == "django_mcp.drf.W006"]
    assert sorted(each.msg.split("'")[1] for each in found) == sorted(lacking)
    for each in found:
        assert isinstance(each, checks.Warning)
        assert each.msg.endswith(
            "reads the body of its request, but its tool has no arguments for it."
        )
    assert set(properties(server, "weighing_weigh_well")) == {"pk", "kilos"}
    if "weigh" in lacking:
        (hint,) = [each.hint for each in found if "'weigh'" in each.msg]
        assert "serializers={'weigh': WeighSerializer}" in hint


@pytest.mark.parametrize(
    ("view", "options", "ids"),
    [
        (weigh_all, {}, ["I002", "I002"]),
        (weigh_all, {"query": {"get": {"unit": {"type": "string"}}}}, ["I002"]),
        (send_all, {}, ["W006"]),
        (send_all, {"serializers": {"post": Weight}}, []),
        (count_all, {}, []),
        (document_all, {}, ["W006"]),
    ],
)
def test_what_functions_of_api_view_read_is_told(
    server: MCPServer, view: Any, options: Any, ids: list[str]
):
    viewset_tools(view, server=server, prefix="all", **options)

    found = [each for each in told(server) if each.id.startswith("django_mcp.drf.")]

    assert [each.id for each in found] == [f"django_mcp.drf.{id}" for id in ids]
    assert all(
        "{'unit': {'type': 'string'}, 'all': {'type': 'string'}}" in each.hint
        for each in found
        if each.id.endswith("I002")
    )


class WithoutActions(viewsets.GenericViewSet):
    pass


class WithList(WithoutActions):
    def list(self, request: Any) -> Response:
        return Response([])


@pytest.mark.parametrize(
    ("view", "options", "end"),
    [
        (WithoutActions, {}, "it has no actions."),
        (WithList, {"actions": []}, "it has no actions that the options of viewset_tools() leave."),
    ],
)
def test_a_view_that_makes_no_tools_is_reported(
    server: MCPServer, view: Any, options: dict[str, Any], end: str
):
    assert viewset_tools(view, server=server, **options) == []

    (problem,) = told(server)
    assert problem.id == "django_mcp.drf.W002"
    assert problem.msg == f"{__name__}.{view.__name__} makes no tools: {end}"


def test_a_name_that_another_view_has_taken_is_a_warning(server: MCPServer, ada: User):
    class OldOrders(viewsets.ReadOnlyModelViewSet):
        queryset = Order.objects.all()
        serializer_class = OrderSerializer

    class NewOrders(OldOrders):
        pass

    viewset_tools(OldOrders, server=server)
    viewset_tools(NewOrders, server=server, names={"retrieve": "order_details"})

    assert list(tools(server, ada)) == ["order_list", "order_retrieve", "order_details"]
    (problem,) = told(server)
    assert problem.id == "django_mcp.drf.W002"
    assert "there is a tool 'order_list' already, by tests.unit.contrib.drf" in problem.msg
    assert "prefix=" in problem.hint


def test_pages_and_filters_of_an_extra_action_are_arguments(server: MCPServer, ada: User):
    viewset_tools(OwnOrders, server=server, prefix="orders", actions=["recent"])
    for number in ("A-1", "A-2", "A-3"):
        make_order(ada, number)

    assert set(properties(server, "orders_recent", ada)) == {
        "note", "by", "search", "ordering", "cursor", "row_cursor",
    }  # fmt: skip
    first = data(server, "orders_recent", ada)
    assert [each["number"] for each in first["results"]] == ["A-1", "A-2"]
    second = data(server, "orders_recent", ada, **first["next"])
    assert [each["number"] for each in second["results"]] == ["A-3"]


def test_an_action_that_asks_for_pages_gets_all_rows_of_a_view_without_pages(server: MCPServer):
    class Unpaged(viewsets.GenericViewSet):
        queryset = Product.objects.order_by("sku")
        serializer_class = ProductSerializer
        permission_classes = ()

        @action(detail=False)
        def cheap(self, request: Any) -> Response:
            page = self.paginate_queryset(self.get_queryset())
            return self.paginator.get_paginated_response(self.get_serializer(page, many=True).data)

    for number in range(3):
        Product.objects.create(sku=f"p{number}", name="P", category="garden", price=1)
    viewset_tools(Unpaged, server=server, max_results=2)

    found = data(server, "product_cheap")
    assert [each["sku"] for each in found["results"]] == ["p0", "p1"]
    assert data(server, "product_cheap", cursor=found["next_cursor"]) == {
        "results": [found["results"][0] | {"sku": "p2"}],
        "total": 3,
    }


def test_an_extra_action_reads_only_a_serializer_of_its_own(server: MCPServer):
    class ByAction(viewsets.GenericViewSet):
        queryset = Product.objects.all()
        permission_classes = ()

        def get_serializer_class(self) -> Any:
            classes = {"rate": OrderSerializer}
            return classes.get(self.action, ProductSerializer)

        @action(detail=True, methods=["post"])
        def rate(self, request: Any, pk: Any) -> Response:
            return Response({})

        @action(detail=True, methods=["post"])
        def hide(self, request: Any, pk: Any) -> Response:
            return Response({})

        @extend_schema(summary="Show")
        @action(detail=True, methods=["post"])
        def show(self, request: Any, pk: Any) -> Response:
            return Response({})

    viewset_tools(ByAction, server=server, prefix="by")

    assert set(properties(server, "by_rate")) == {"pk", "number", "note", "placed_at"}
    assert set(properties(server, "by_hide")) == {"pk"}
    assert set(properties(server, "by_show")) == {"pk"}


def test_two_functions_never_share_a_tool(server: MCPServer):
    class Stars(viewsets.GenericViewSet):
        permission_classes = ()

        @action(detail=False, methods=["get", "delete"])
        def star(self, request: Any) -> Response:
            return Response({"by": f"star {request.method}"})

        @action(detail=False)
        def star_delete(self, request: Any) -> Response:
            return Response({"by": "star_delete"})

    viewset_tools(Stars, server=server, prefix="")

    assert set(tools(server)) == {"star", "star_http_delete", "star_delete"}
    assert data(server, "star_delete") == {"by": "star_delete"}
    assert data(server, "star_http_delete") == {"by": "star DELETE"}
    assert told(server) == []


def keep(**options: Any) -> Any:
    """Do what `@swagger_auto_schema` of drf-yasg does: it keeps its arguments on the function."""

    def decorate(function: Any) -> Any:
        function._swagger_auto_schema = options
        return function

    return decorate


def test_what_drf_yasg_is_told_counts(server: MCPServer):
    class Described(viewsets.GenericViewSet):
        queryset = Product.objects.all()
        permission_classes = ()

        @keep(operation_summary="Best", responses={200: ProductSerializer(many=True)})
        @action(detail=False)
        def best(self, request: Any) -> Response:
            return Response(ProductSerializer(self.get_queryset(), many=True).data)

        @keep(
            put={
                "request_body": ProductSerializer,
                "responses": {"200": {"schema": ProductSerializer}},
            },
            get={"operation_description": "Look at one.", "responses": {404: "No such product"}},
        )
        @action(detail=True, methods=["get", "put"])
        def one(self, request: Any, pk: Any) -> Response:
            return Response(ProductSerializer(self.get_object()).data)

        @keep(auto_schema=None)
        @action(detail=False)
        def inner(self, request: Any) -> Response:
            return Response({})

    Product.objects.create(sku="mug", name="Mug", category="kitchen", price="3.50")
    viewset_tools(Described, server=server, prefix="d")

    listed = tools(server)
    assert set(listed) == {"d_best", "d_one", "d_one_put"}
    assert listed["d_best"]["title"] == "Best"
    assert listed["d_one"]["description"] == "Look at one."
    rows = listed["d_best"]["outputSchema"]["properties"]["results"]["items"]["properties"]
    assert set(rows) == {"sku", "name", "price"}
    assert set(properties(server, "d_one_put")) == {"pk", "sku", "name", "price"}
    assert set(listed["d_one_put"]["outputSchema"]["properties"]) == {"sku", "name", "price"}
    assert listed["d_one"]["outputSchema"] == {"type": "object"}
    assert [each["sku"] for each in data(server, "d_best")["results"]] == ["mug"]


# -- views whose URLs say more


def test_the_variables_of_a_nested_url_are_arguments(server: MCPServer, ada: User):
    viewset_tools(Lines, server=server, prefix="lines", actions=["list", "retrieve", "create"])
    make_order(ada, "A-1")

    assert list(properties(server, "lines_list")) == ["order_number", "limit", "cursor"]
    assert list(properties(server, "lines_retrieve")) == ["order_number", "pk"]
    assert list(properties(server, "lines_create")) == ["order_number", "quantity"]
    assert data(server, "lines_list", order_number="A-1") == {"results": []}
    assert told(server) == []


class OfShop(permissions.BasePermission):
    """Lets the staff of the shop in the URL pass."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(view.kwargs["order_number"] == request.user.first_name)


class WithoutShop(OfShop):
    def has_permission(self, request: Any, view: Any) -> bool:
        if request.parser_context["kwargs"].get("another") is None:
            return False
        return super().has_permission(request, view)


@pytest.mark.parametrize(
    ("classes", "shown_to"),
    [
        ([OfShop], ["nobody", "ada", "staff"]),
        ([OfShop, permissions.IsAuthenticated], ["ada", "staff"]),
        ([OfShop & permissions.IsAdminUser], ["staff"]),
        ([permissions.IsAdminUser | OfShop], ["nobody", "ada", "staff"]),
        ([~OfShop], ["nobody", "ada", "staff"]),  # type: ignore[operator]
        ([permissions.IsAdminUser | WithoutShop], ["staff"]),
    ],
)
def test_a_permission_class_that_reads_the_url_is_asked_at_the_call_alone(
    server: MCPServer, ada: User, classes: Any, shown_to: list[str]
):
    class OfTenant(Lines):
        permission_classes = classes

    viewset_tools(OfTenant, server=server, path={"order_number": {"type": "string"}}, prefix="own")
    users = {"nobody": None, "ada": ada, "staff": User.objects.create_user("x", is_staff=True)}

    assert [name for name, user in users.items() if "own_list" in tools(server, user)] == shown_to


def test_a_call_is_judged_by_the_url_that_it_has(server: MCPServer, ada: User):
    class OfTenant(Lines):
        permission_classes = (OfShop,)

    ada.first_name = "A-1"
    make_order(ada, "A-1")
    make_order(ada, "A-2")
    viewset_tools(OfTenant, server=server, path={"order_number": {"type": "string"}}, prefix="own")

    assert data(server, "own_list", ada, order_number="A-1") == {"results": []}
    assert "permission" in error(server, "own_list", ada, order_number="A-2")
    assert "permission" in error(server, "own_list", ada, order_number="A-3")


def test_a_nested_view_is_shown_to_those_with_the_permissions_of_its_model(
    server: MCPServer, ada: User
):
    class Guarded(Lines):
        queryset = Order.objects.all()
        permission_classes = (permissions.DjangoModelPermissions,)

    class Refusing(Guarded):
        def get_queryset(self) -> Any:
            raise PermissionDenied

    viewset_tools(Guarded, server=server, prefix="lines", actions=["list", "destroy"])
    viewset_tools(Refusing, server=server, prefix="refused", actions=["list"])

    assert list(tools(server)) == []
    assert list(tools(server, ada)) == ["lines_list"]
    boss = User.objects.create_superuser("boss")
    assert list(tools(server, boss)) == ["lines_list", "lines_destroy"]


def test_a_function_that_only_a_url_binds_is_an_action(server: MCPServer):
    entries = viewset_tools(Bound, server=server, prefix="bound")

    assert list(tools(server)) == ["bound_listing", "bound_add"]
    assert [entry.name for entry in entries] == ["bound_listing", "bound_add"]
    assert tools(server)["bound_listing"]["description"] == "List what is sold."
    made = {"sku": "mug", "name": "Mug", "price": "3.50"}
    assert data(server, "bound_add", **made) == made
    assert data(server, "bound_listing") == {"results": [made]}


@pytest.mark.django_db(transaction=True)
def test_a_bound_function_may_read_the_database_to_tell_its_fields(server: MCPServer):
    class FromTable(serializers.Serializer):
        sku = serializers.ChoiceField(choices=())

        def get_fields(self) -> Any:
            skus = [sku for (sku,) in Product.objects.values_list("sku")]
            return {"sku": serializers.ChoiceField(choices=skus)}

    class Choosing(Bound):
        serializer_class: Any = FromTable

    urlpatterns.append(path("choosing/", Choosing.as_view({"post": "add"})))
    try:
        Product.objects.create(sku="mug", name="Mug", category="kitchen", price="3.50")
        viewset_tools(Choosing, server=server, prefix="choosing")
        assert properties(server, "choosing_add")["sku"]["enum"] == ["mug"]
    finally:
        urlpatterns.pop()


def test_bound_functions_can_be_named(server: MCPServer):
    viewset_tools(Bound, server=server, prefix="a", actions=["listing"], names={"listing": "stock"})
    viewset_tools(OtherBound, server=server, prefix="b", actions=["listing"])

    assert list(tools(server)) == ["a_stock"]
    (problem,) = told(server)
    assert problem.id == "django_mcp.drf.W002"
    assert "'listing' of" in problem.msg
    assert "no URL of the site leads to it" in problem.msg


def test_what_as_view_returns_has_the_actions_that_it_names(server: MCPServer):
    viewset_tools(OtherBound.as_view({"get": "listing"}), server=server, prefix="other")
    viewset_tools(OwnOrders.as_view({"get": "list"}), server=server, prefix="orders")

    assert {entry.name for entry in server.registry.tools.values()} == {
        "other_listing",
        "orders_list",
    }
    assert data(server, "other_listing") == {"results": []}


def test_a_view_of_the_caller_needs_no_key(server: MCPServer, ada: User):
    viewset_tools(Me, server=server, prefix="me")

    assert properties(server, "me_get", ada) == {}
    assert data(server, "me_get", ada) == {"username": "ada", "email": "ada@example.com"}
    assert data(server, "me_patch", ada, email="a@b.example")["email"] == "a@b.example"


def test_the_variables_of_a_plain_view_are_those_of_its_urls(server: MCPServer):
    viewset_tools(Archive, server=server, prefix="archive")
    viewset_tools(greet, server=server, prefix="greet")

    schema = tools(server)["archive_get"]["inputSchema"]
    assert list(schema["properties"]) == ["year", "month"]
    assert schema["required"] == ["year"]
    assert schema["properties"]["year"]["type"] == "integer"
    assert data(server, "archive_get", year=2026) == {"year": 2026, "month": None}
    assert data(server, "archive_get", year=2026, month=3) == {"year": 2026, "month": 3}
    assert tools(server)["greet_get"]["description"] == "Greet somebody."
    assert data(server, "greet_get", who="ada") == {"hello": "ada"}
    assert told(server) == []


# -- sign-ins


def test_views_about_passwords_and_sign_ins_are_no_tools_unless_named(server: MCPServer):
    class Credentials(serializers.Serializer):
        name = serializers.CharField()
        word = serializers.CharField(style={"input_type": "password"})

    class LoginView(generics.GenericAPIView):
        serializer_class = serializers.Serializer

        def post(self, request: Any) -> Response:
            return Response({"key": "secret"})

    class Enter(generics.CreateAPIView):
        serializer_class = Credentials

    class People(viewsets.GenericViewSet):
        queryset = User.objects.all()
        serializer_class = serializers.Serializer

        @action(detail=True, methods=["post"])
        def reset_password(self, request: Any, pk: Any) -> Response:
            return Response({})

    class MyLogin(LoginView):
        pass

    for view in (LoginView, MyLogin, Enter, People):
        assert viewset_tools(view, server=server) == []
    found = told(server)
    assert {each.id for each in found} == {"django_mcp.drf.W005"}
    assert "actions=['post']" in found[0].hint
    assert len(found) == 4

    viewset_tools(MyLogin, server=server, actions=["post"])
    viewset_tools(People, server=server, prefix="people", actions=["reset_password"])
    assert set(tools(server)) == {"my_login_post", "people_reset_password"}


# -- what a client sends and gets


def test_fields_of_the_view_may_have_any_name(server: MCPServer):
    class Sent(serializers.Serializer):
        fields = serializers.CharField()
        limit = serializers.IntegerField()
        items = serializers.CharField()

    class Echo(APIView):
        permission_classes = ()
        serializer_class = Sent

        def post(self, request: Any) -> Response:
            return Response(request.data)

    viewset_tools(Echo, server=server, prefix="echo")

    sent = {"fields": "a", "limit": 1, "items": "b"}
    assert data(server, "echo_post", **sent) == sent


def test_choices_are_what_json_can_carry(server: MCPServer):
    class Size(Enum):
        SMALL = "s"

    class Sent(serializers.Serializer):
        day = serializers.ChoiceField(choices=[(datetime.date(2026, 1, 1), "New Year")])
        sizes = serializers.MultipleChoiceField(choices=[(Size.SMALL, "Small")])
        price = serializers.ChoiceField(choices=[(Decimal("1.5"), "cheap")], default=Decimal("1.5"))
        count = serializers.IntegerField(min_value=Decimal(1), max_value=Decimal(3), required=False)

    class Echo(viewsets.ViewSet):
        permission_classes = ()

        def create(self, request: Any) -> Response:
            serializer = Sent(data=request.data)
            serializer.is_valid(raise_exception=True)
            return Response(serializer.data)

    viewset_tools(Echo, server=server, prefix="echo", serializers={"create": Sent})

    found = properties(server, "echo_create")
    assert found["day"]["enum"] == ["2026-01-01"]
    assert found["sizes"]["items"]["enum"] == ["s"]
    assert found["price"]["enum"] == ["1.5"]
    sent = {"day": "2026-01-01", "sizes": ["s"], "price": "1.5"}
    assert data(server, "echo_create", **sent)["day"] == "2026-01-01"


def test_data_of_a_serializer_without_fields_are_one_argument(server: MCPServer):
    class Kinds(serializers.Serializer):
        def to_internal_value(self, data: Any) -> Any:
            return {"kind": data["kind"]}

        def to_representation(self, instance: Any) -> Any:
            return instance

    class Anything(serializers.BaseSerializer):
        def to_internal_value(self, data: Any) -> Any:
            return data

        def to_representation(self, instance: Any) -> Any:
            return instance

    class Echo(generics.GenericAPIView):
        permission_classes = ()
        serializer_class: Any = Kinds

        def post(self, request: Any) -> Response:
            serializer = self.get_serializer(data=request.data)
            serializer.is_valid(raise_exception=True)
            return Response(serializer.validated_data)

    class EchoAnything(Echo):
        serializer_class = Anything

    for prefix, view in (("a", Echo), ("b", EchoAnything)):
        viewset_tools(view, server=server, prefix=prefix)
        assert data(server, f"{prefix}_post", data={"kind": "x"}) == {"kind": "x"}


def test_errors_name_the_arguments_that_were_sent(server: MCPServer):
    class Many(serializers.Serializer):
        number = serializers.IntegerField()

        def validate_number(self, value: int) -> int:
            raise serializers.ValidationError("No.")

    class Replace(generics.GenericAPIView):
        permission_classes = ()
        serializer_class = Many
        is_many = False

        def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
            return super().get_serializer(*args, many=self.is_many, **kwargs)

        def post(self, request: Any, **kwargs: Any) -> Response:
            self.get_serializer(data=request.data).is_valid(raise_exception=True)
            return Response({})

    class ReplaceMany(Replace):
        is_many = True

    viewset_tools(Replace, server=server, prefix="a", rename={"body.number": "new_number"})
    viewset_tools(ReplaceMany, server=server, prefix="b", rename={"body.items": "rows"})

    assert error(server, "a_post", new_number=1) == "new_number: No."
    assert error(server, "b_post", rows=[{"number": 1}]) == "rows.0.number: No."


def test_results_have_the_schema_of_the_serializer(server: MCPServer, ada: User):
    viewset_tools(OwnOrders, server=server, prefix="orders")
    sent = {"number": "A-1", "placed_at": "2026-01-01T10:00:00Z"}
    made = data(server, "orders_create", ada, **sent)

    found = tools(server, ada)
    one = found["orders_retrieve"]["outputSchema"]["properties"]
    assert set(one) == {"number", "note", "placed_at", "by", "count"}
    assert one["number"]["type"] == "string"
    page = found["orders_list"]["outputSchema"]["properties"]
    assert set(page) == {"next", "previous", "results", "next_cursor", "note"}
    assert page["results"]["items"]["properties"].keys() == one.keys()
    assert data(server, "orders_retrieve", ada, number="A-1") == made
    assert data(server, "orders_list", ada)["results"] == [made]
    assert data(server, "orders_partial_update", ada, number="A-1", note="x")["note"] == "x"
    assert data(server, "orders_destroy", ada, number="A-1") == {"result": None}


def test_null_is_in_the_schema_where_it_may_come(server: MCPServer):
    class Row(serializers.Serializer):
        text = serializers.CharField(read_only=True)
        size = serializers.IntegerField(read_only=True)
        kinds = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Rows(viewsets.GenericViewSet):
        permission_classes = ()
        serializer_class = Row

        def get_queryset(self) -> Any:
            return [{"text": None, "size": None, "kinds": ["a", None]}]

    class Listed(viewsets.mixins.ListModelMixin, Rows):
        pass

    viewset_tools(Listed, server=server, prefix="rows")

    assert data(server, "rows_list")["results"] == [
        {"text": None, "size": None, "kinds": ["a", None]}
    ]


def test_a_representation_of_the_site_is_left_open(server: MCPServer):
    class Loud(serializers.CharField):
        def to_representation(self, value: Any) -> Any:
            return {"loud": str(value).upper()}

    class LoudSerializer(ProductSerializer):
        name = Loud()

    class Whole(ProductSerializer):
        def to_representation(self, instance: Any) -> Any:
            return {"sku": 1}

    class Rows(serializers.ListSerializer):
        def to_representation(self, data: Any) -> Any:
            return {"results": super().to_representation(data)[0]}

    class InRows(ProductSerializer):
        class Meta(ProductSerializer.Meta):
            list_serializer_class = Rows

    class Wrapping(renderers.JSONRenderer):
        def render(self, data: Any, *args: Any, **kwargs: Any) -> Any:
            return super().render({"sku": {"wrapped": data}}, *args, **kwargs)

    Product.objects.create(sku="mug", name="Mug", category="kitchen", price="3.50")
    for number, (serializer, renderer) in enumerate(
        [
            (LoudSerializer, renderers.JSONRenderer),
            (InRows, renderers.JSONRenderer),
            (Whole, renderers.JSONRenderer),
            (ProductSerializer, Wrapping),
        ]
    ):

        class Products(viewsets.ReadOnlyModelViewSet):
            queryset = Product.objects.order_by("pk")
            serializer_class = serializer
            permission_classes = ()
            renderer_classes = (renderer,)

        viewset_tools(Products, server=server, prefix=f"p{number}")
        data(server, f"p{number}_list")
        data(server, f"p{number}_retrieve", pk=Product.objects.get().pk)


def test_responses_of_drf_spectacular_are_the_schema_of_results(server: MCPServer):
    class Reports(viewsets.ViewSet):
        permission_classes = ()

        @extend_schema(responses={200: ProductSerializer, 404: OpenApiResponse(description="No.")})
        @action(detail=False)
        def best(self, request: Any) -> Response:
            return Response({"sku": "mug", "name": "Mug", "price": "3.50"})

        @extend_schema(responses=ProductSerializer(many=True))
        @action(detail=False)
        def all(self, request: Any) -> Response:
            return Response([{"sku": "mug", "name": "Mug", "price": "3.50"}])

        @extend_schema(responses={204: None})
        @action(detail=False)
        def nothing(self, request: Any) -> Response:
            return Response(status=204)

    viewset_tools(Reports, server=server, prefix="reports")

    found = {name: each["outputSchema"] for name, each in tools(server).items()}
    assert set(found["reports_best"]["properties"]) == {"sku", "name", "price"}
    rows = found["reports_all"]["properties"]["results"]
    assert set(rows["items"]["properties"]) == {"sku", "name", "price"}
    for name in found:
        data(server, name)


def test_files_are_addresses(server: MCPServer):
    class Picture(serializers.Serializer):
        file = serializers.FileField()

    class Stored:
        name, url = "a.txt", "/media/a.txt"

    class Pictures(generics.RetrieveAPIView):
        permission_classes = ()
        serializer_class = Picture

        def get_object(self) -> Any:
            return {"file": Stored()}

    viewset_tools(Pictures, server=server, prefix="picture", kwargs={"pk": 1})

    address = data(server, "picture_get")["file"]
    assert address.startswith("http://")
    assert address.endswith("/media/a.txt")


def test_names_are_ascii(server: MCPServer):
    class Größe(viewsets.ViewSet):
        permission_classes = ()

        def list(self, request: Any) -> Response:
            return Response([])

    viewset_tools(Größe, server=server)

    assert list(tools(server)) == ["grosse_list"]
