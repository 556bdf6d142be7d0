"""An API of the shop, as a site has it, for the tests of `viewset_tools`."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db import connection
from django.db.models import QuerySet
from django.http import HttpResponse
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import filters, generics, pagination, permissions, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from example_project.shop.models import Order, OrderLine, Product


class LineSerializer(serializers.ModelSerializer):
    product = serializers.SlugRelatedField(slug_field="sku", queryset=Product.objects.all())

    class Meta:
        model = OrderLine
        fields = ("product", "quantity", "unit_price")


class OrderSerializer(serializers.ModelSerializer):
    lines = LineSerializer(many=True)
    secret = serializers.CharField(write_only=True, required=False, help_text="Kept from readers.")

    class Meta:
        model = Order
        fields = ("number", "status", "note", "placed_at", "lines", "secret")
        read_only_fields = ("number",)

    def validate_note(self, value: str) -> str:
        if "!" in value:
            raise serializers.ValidationError("No shouting.")
        return value

    def create(self, validated_data: dict[str, Any]) -> Order:
        lines = validated_data.pop("lines")
        validated_data.pop("secret", None)
        user = self.context["request"].user
        order = Order.objects.create(customer=user, **validated_data)
        OrderLine.objects.bulk_create(OrderLine(order=order, **line) for line in lines)
        return order


class ShipSerializer(serializers.Serializer):
    carrier = serializers.ChoiceField(choices=["post", "bike"])


class OrderFilter(django_filters.FilterSet):
    placed_at = django_filters.DateFromToRangeFilter()

    class Meta:
        model = Order
        fields = ("status",)


class Pages(pagination.PageNumberPagination):
    page_size = 2
    page_size_query_param = "page_size"


class IsOwn(permissions.IsAuthenticated):
    message = "This order is not yours."

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return bool(obj.customer_id == request.user.pk)


class OrderViewSet(viewsets.ModelViewSet):
    """Orders are what customers bought."""

    queryset = Order.objects.order_by("number")
    serializer_class = OrderSerializer
    permission_classes = (IsOwn,)
    pagination_class = Pages
    filter_backends = (DjangoFilterBackend, filters.SearchFilter, filters.OrderingFilter)
    filterset_class = OrderFilter
    search_fields = ("number", "note")
    ordering_fields = ("number", "placed_at")
    lookup_field = "number"

    def get_queryset(self) -> QuerySet[Order]:
        return super().get_queryset().prefetch_related("lines__product")

    @action(detail=True, methods=["post"], serializer_class=ShipSerializer)
    def ship(self, request: Any, number: str) -> Response:
        """Ship an order."""
        order = self.get_object()
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        order.status = Order.Status.SHIPPED
        order.save()
        if serializer.validated_data["carrier"] == "bike":
            raise NotFound("There is no bike.")
        return Response({"number": order.number, "by": request.user.get_username()})

    @action(detail=False)
    def whoami(self, request: Any, **kwargs: Any) -> Response:
        """Say how the view sees the request."""
        return Response(
            {
                "user": request.user.get_username(),
                "action": self.action,
                "kwargs": self.kwargs,
                "format": self.format_kwarg,
                "authenticator": type(request.successful_authenticator).__name__,
            }
        )


class StaffViewSet(viewsets.ViewSet):
    permission_classes = (permissions.IsAdminUser,)

    def list(self, request: Any) -> Response:
        """List what only the staff may see."""
        return Response(["a", "b"])


class EveryMinute(BaseThrottle):
    def allow_request(self, request: Any, view: Any) -> bool:
        return False

    def wait(self) -> float:
        return 30


class ThrottledView(APIView):
    throttle_classes = (EveryMinute,)

    def get(self, request: Any) -> Response:
        """Get nothing for a while."""
        return Response({})


class ProductList(generics.ListAPIView):
    class ProductSerializer(serializers.ModelSerializer):
        class Meta:
            model = Product
            fields = ("sku", "price")

    queryset = Product.objects.all()
    serializer_class = ProductSerializer


class NeedsData(viewsets.ModelViewSet):
    queryset = Order.objects.all()

    def get_serializer_class(self) -> Any:
        return {"order": OrderSerializer}[self.request.data["kind"]]


class FieldsFromTableSerializer(serializers.ModelSerializer):
    class Meta:
        model = Order
        fields = ("number",)

    def get_fields(self) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM a_table_that_is_not_there")
        raise AssertionError


class FieldsFromTable(viewsets.ModelViewSet):
    queryset = Order.objects.all()
    serializer_class = FieldsFromTableSerializer


class Clashing(viewsets.ModelViewSet):
    class NumberSerializer(serializers.ModelSerializer):
        class Meta:
            model = Order
            fields = ("number", "status")

    queryset = Order.objects.all()
    serializer_class = NumberSerializer
    lookup_field = "number"


class Annotated(viewsets.GenericViewSet):
    queryset = Order.objects.all()
    serializer_class = OrderSerializer

    @extend_schema(
        summary="Sums",
        description="Sum up the orders of some days.",
        parameters=[
            OpenApiParameter("days", int, required=True, description="How many."),
            OpenApiParameter("X-Trace", str, OpenApiParameter.HEADER),
        ],
    )
    @action(detail=False)
    def total(self, request: Any) -> Response:
        """Never shown."""
        return Response(int(request.query_params["days"]) * 2)

    @extend_schema(request=ShipSerializer)
    @action(detail=False, methods=["post"])
    def sent(self, request: Any) -> Response:
        """Tell what was sent."""
        return Response(request.data)

    @extend_schema(exclude=True)
    @action(detail=False)
    def internal(self, request: Any) -> Response:
        """Nothing for others."""
        return Response("x")


class Files(viewsets.ViewSet):
    class FileSerializer(serializers.Serializer):
        file = serializers.FileField()

    class OptionalFileSerializer(serializers.Serializer):
        file = serializers.FileField(required=False)
        name = serializers.CharField()

    @action(detail=False, methods=["post"], url_path=r"(?P<folder>[a-z]+)/new")
    def upload(self, request: Any, folder: str) -> Response:
        """Upload a file."""
        return Response({"folder": folder, **request.data})

    @action(detail=False)
    def download(self, request: Any) -> Any:
        """Download a file."""
        return HttpResponse(b"a,b", content_type="text/csv; charset=utf-8")
