"""The shop's API made with Django REST framework, at /api/."""

from django.db.models import QuerySet
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.pagination import PageNumberPagination
from rest_framework.permissions import SAFE_METHODS, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import DefaultRouter

from example_project.shop import sales
from example_project.shop.models import Order


class OrderSerializer(serializers.ModelSerializer):  # type: ignore[misc]
    class Meta:
        model = Order
        fields = ("number", "status", "note", "placed_at")
        read_only_fields = ("number", "status", "placed_at")


class OrderPages(PageNumberPagination):  # type: ignore[misc]
    page_size = 20


class OrderViewSet(
    mixins.ListModelMixin,  # type: ignore[misc]
    mixins.RetrieveModelMixin,  # type: ignore[misc]
    mixins.UpdateModelMixin,  # type: ignore[misc]
    viewsets.GenericViewSet,  # type: ignore[misc]
):
    """Orders are what customers bought. Everybody sees their own."""

    queryset = Order.objects.all()
    serializer_class = OrderSerializer
    pagination_class = OrderPages
    permission_classes = (IsAuthenticated,)
    lookup_field = "number"

    def get_queryset(self) -> QuerySet[Order]:
        if self.request.method in SAFE_METHODS:
            return Order.objects.visible_to(self.request.user)
        return Order.objects.changeable_by(self.request.user)

    @action(detail=True, methods=["post"])  # type: ignore[untyped-decorator]
    def cancel(self, request: Request, number: str) -> Response:
        """Cancel an order that was not shipped, and put its goods back into stock."""
        order = self.get_object()
        sales.cancel(order)
        return Response(self.get_serializer(order).data)


router = DefaultRouter()
router.register("orders", OrderViewSet)
