"""Handlers, views and admins that ask for what the client's request has and theirs lacks, and the log that tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.middleware.csrf import get_token
from django.test import RequestFactory
from django.utils.translation import get_language_from_request
from ninja import NinjaAPI
from rest_framework import pagination, permissions, serializers, viewsets
from rest_framework.authentication import TokenAuthentication
from rest_framework.response import Response
from rest_framework.throttling import AnonRateThrottle
from rest_framework.views import APIView

from django_mcp import Context, MCPServer
from django_mcp.auth import left_out
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.ninja import operation_tools
from example_project.shop.models import Product

pytestmark = pytest.mark.django_db(transaction=True)

Read = Callable[[Any], Any]

VALUE = "swordfish"

READS: dict[str, tuple[str, Read]] = {
    "headers.get()": ("X-External", lambda request: request.headers.get("x-external")),
    "headers[]": ("X-External", lambda request: request.headers["X-External"]),
    "in headers": ("X-External", lambda request: "X-External" in request.headers),
    "META.get()": ("X-External", lambda request: request.META.get("HTTP_X_EXTERNAL")),
    "META[]": ("X-External", lambda request: request.META["HTTP_X_EXTERNAL"]),
    "in META": ("X-External", lambda request: "HTTP_X_EXTERNAL" in request.META),
    "COOKIES.get()": ("external", lambda request: request.COOKIES.get("external")),
    "COOKIES[]": ("external", lambda request: request.COOKIES["external"]),
    "in COOKIES": ("external", lambda request: "external" in request.COOKIES),
    "signed cookie": ("external", lambda request: request.get_signed_cookie("external", None)),
    "GET.get()": ("outside", lambda request: request.GET.get("outside")),
    "GET[]": ("outside", lambda request: request.GET["outside"]),
    "GET.getlist()": ("outside", lambda request: request.GET.getlist("outside")),
    "in GET": ("outside", lambda request: "outside" in request.GET),
    "getattr()": ("region", lambda request: getattr(request, "region", None)),
    "hasattr()": ("region", lambda request: hasattr(request, "region")),
    "setattr()": ("zone", lambda request: getattr(request, "zone", None)),
}


class Regions:
    """Middleware of a site."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        self.kept = None

    def __call__(self, request: Any) -> Any:
        request.region = "eu"
        setattr(request, "zone", _find_zone(request))  # noqa: B010
        return self.get_response(request)


def _find_zone(request: Any) -> str:
    return f"{request.region}-1"


Place = Callable[[MCPServer, Read], None]


def function(server: MCPServer, read: Read) -> None:
    @server.tool(name="ask")
    def ask(ctx: Context) -> str:
        read(ctx.request)
        return ""


def async_function(server: MCPServer, read: Read) -> None:
    @server.tool(name="ask")
    async def ask(ctx: Context) -> str:
        read(ctx.request)
        return ""


def permission(server: MCPServer, read: Read) -> None:
    class Asks(permissions.BasePermission):
        def has_permission(self, request: Any, view: Any) -> bool:
            read(request)
            return True

    class View(viewsets.ReadOnlyModelViewSet):
        queryset = Product.objects.order_by("pk")
        serializer_class = ProductSerializer
        permission_classes = (Asks,)

    viewset_tools(View, server=server, actions=["list"], names={"list": "ask"}, prefix="")


class ProductSerializer(serializers.ModelSerializer):
    class Meta:
        model = Product
        fields = ("name",)


def throttle(server: MCPServer, read: Read) -> None:
    class Throttle(AnonRateThrottle):
        rate = "1000/min"

        def allow_request(self, request: Any, view: Any) -> bool:
            read(request)
            return bool(super().allow_request(request, view))

    class View(APIView):
        permission_classes = ()
        throttle_classes = (Throttle,)

        def get(self, request: Any) -> Response:
            return Response({})

    viewset_tools(View, server=server, names={"get": "ask"}, prefix="")


def initial(server: MCPServer, read: Read) -> None:
    class View(APIView):
        permission_classes = ()

        def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
            super().initial(request, *args, **kwargs)
            read(request)

        def post(self, request: Any) -> Response:
            return Response({})

    viewset_tools(View, server=server, names={"post": "ask"}, prefix="", serializers={"post": None})


def serializer(server: MCPServer, read: Read) -> None:
    Product.objects.create(sku="p", name="Pot", category="kitchen", price=1)

    class Serializer(ProductSerializer):
        def to_representation(self, instance: Any) -> Any:
            read(self.context["request"])
            return super().to_representation(instance)

    class View(viewsets.ReadOnlyModelViewSet):
        queryset = Product.objects.order_by("pk")
        serializer_class = Serializer
        permission_classes = ()

    viewset_tools(View, server=server, actions=["list"], names={"list": "ask"}, prefix="")


def operation(server: MCPServer, read: Read) -> None:
    api = NinjaAPI(urls_namespace=server.name)

    @api.get("/ask")
    def ask(request: Any) -> Any:
        read(request)
        return {}

    operation_tools(api, server=server)


def async_operation(server: MCPServer, read: Read) -> None:
    api = NinjaAPI(urls_namespace=server.name)

    @api.get("/ask")
    async def ask(request: Any) -> Any:
        read(request)
        return {}

    operation_tools(api, server=server)


def ninja_auth(server: MCPServer, read: Read) -> None:
    api = NinjaAPI(urls_namespace=server.name)

    def authenticate(request: Any) -> Any:
        read(request)
        return "somebody"

    @api.get("/ask", auth=authenticate)
    def ask(request: Any) -> Any:
        return {}

    operation_tools(api, server=server)


def model_admin(server: MCPServer, read: Read) -> None:
    class Products(admin.ModelAdmin):
        def get_queryset(self, request: Any) -> Any:
            read(request)
            return super().get_queryset(request)

    site = admin.AdminSite()
    site.register(Product, Products)
    admin_tools(server=server, site=site, models=[Product])


PLACES: list[Place] = [
    *(function, async_function, permission, throttle, initial, serializer),
    *(operation, async_operation, ninja_auth, model_admin),
]


@pytest.fixture(autouse=True)
def _nothing_logged(settings: Any) -> Iterator[None]:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.Regions", "gone.Middleware"]
    left_out.logged.reset()
    yield
    left_out.logged.reset()


@pytest.fixture
def server(request: Any) -> MCPServer:
    return MCPServer(f"lacks-{abs(hash(request.node.nodeid))}", public=True)


def call(
    server: MCPServer, read: Read, place: Place, query: str = "outside=swordfish"
) -> list[Any]:
    """Return what a call of a tool has read: all values."""
    found = []

    def ask(request: Any) -> Any:
        try:
            value = read(request)
        except KeyError:
            value = None
        found.append(value)

    place(server, ask)
    user = User.objects.create_superuser("root", password="x")
    request = RequestFactory(
        headers={
            "X-External": VALUE,
            "Authorization": f"Token {VALUE}",
            "Cookie": f"external={VALUE}; csrftoken={VALUE}; django_language=de; sessionid={VALUE}",
            "If-None-Match": VALUE,
        }
    ).post(f"/mcp?{query}")
    name = "search_products" if place is model_admin else "ask"
    server.call_tool(name, request=request, user=user)
    return found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("read", ["headers.get()", "COOKIES.get()", "GET.get()", "getattr()"])
def test_code_of_a_tool_that_asks_for_what_its_request_lacks_is_told_of(
    place: Place, read: str, server: MCPServer, caplog: pytest.LogCaptureFixture
):
    name, ask = READS[read]

    found = call(server, ask, place)

    assert found
    assert set(found) == {None}
    (told,) = caplog.messages
    assert repr(name) in told
    assert __name__ in told
    assert VALUE not in told


@pytest.mark.parametrize("place", [function, permission, operation])
@pytest.mark.parametrize("read", READS)
def test_it_is_told_however_the_code_asks(
    place: Place, read: str, server: MCPServer, caplog: pytest.LogCaptureFixture
):
    name, ask = READS[read]

    found = call(server, ask, place)

    assert not any(found)
    (told,) = caplog.messages
    assert repr(name) in told


def test_query_params_are_told_of(server: MCPServer, caplog: pytest.LogCaptureFixture):
    call(server, lambda request: request.query_params.get("outside"), permission)

    (told,) = caplog.messages
    assert "'outside'" in told
    assert "arguments" in told


@pytest.mark.parametrize("place", PLACES)
def test_a_request_without_what_the_code_asks_for_is_not_told_of(
    place: Place, server: MCPServer, caplog: pytest.LogCaptureFixture
):
    def read(request: Any) -> Any:
        mappings = [request.headers, request.META, request.COOKIES, request.GET]
        assert not hasattr(request, "kept")  # the middleware sets it on itself
        assert not hasattr(request, "unset")
        return [mapping.get("unsent") for mapping in mappings] + [request.headers.get("Host")]

    call(server, read, place)

    assert caplog.messages == []


def by_django(request: Any) -> Any:
    get_language_from_request(request)
    return get_token(getattr(request, "_request", request))


@pytest.mark.parametrize("place", PLACES)
def test_what_django_asks_for_itself_is_not_told_of(
    place: Place, server: MCPServer, caplog: pytest.LogCaptureFixture
):
    call(server, by_django, place)

    assert caplog.messages == []


class Pages(pagination.PageNumberPagination):
    page_size = 2
    page_size_query_param = "size"


def test_the_parameters_that_rest_framework_asks_for_itself_are_not_told_of(
    server: MCPServer, caplog: pytest.LogCaptureFixture
):
    class View(viewsets.ReadOnlyModelViewSet):
        queryset = Product.objects.order_by("pk")
        serializer_class = ProductSerializer
        permission_classes = ()
        pagination_class = Pages

    def place(server: MCPServer, read: Read) -> None:
        viewset_tools(View, server=server, actions=["list"], names={"list": "ask"}, prefix="")

    call(server, by_django, place, query="page=1&format=json&size=3")

    assert caplog.messages == []


def test_an_authentication_class_that_a_permission_calls_is_told_of(
    server: MCPServer, caplog: pytest.LogCaptureFixture
):
    call(server, lambda request: TokenAuthentication().authenticate(request), permission)

    (told,) = caplog.messages
    assert "'Authorization'" in told
    assert __name__ in told


def test_the_middleware_that_sets_an_attribute_is_named(
    server: MCPServer, caplog: pytest.LogCaptureFixture
):
    call(server, lambda request: request.region, function)

    told, _of_the_tool = caplog.messages
    assert f"the attribute 'region', which {__name__}.Regions sets on requests of the site" in told
    assert told.endswith("Keep it from a function of DJANGO_MCP['MIDDLEWARE'], in a ContextVar.")
    assert f"no attribute 'region', which {__name__}.Regions sets on the requests" in caplog.text


def test_a_view_does_not_see_a_parameter_that_handlers_see(
    server: MCPServer, caplog: pytest.LogCaptureFixture, settings: Any
):
    settings.DJANGO_MCP = {**getattr(settings, "DJANGO_MCP", {}), "HANDLER_QUERY": ["outside"]}

    found = call(server, lambda request: request.GET.get("outside"), permission)

    assert set(found) == {None}
    (told,) = caplog.messages
    assert "'outside'" in told


def test_a_view_sees_a_header_that_the_site_names(
    server: MCPServer, caplog: pytest.LogCaptureFixture, settings: Any
):
    settings.DJANGO_MCP = {**getattr(settings, "DJANGO_MCP", {}), "HANDLER_HEADERS": ["X-External"]}

    found = call(server, lambda request: request.headers.get("X-External"), permission)

    assert found[-1] == VALUE
    assert caplog.messages == []
