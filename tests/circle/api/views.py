"""The views of the API."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import Count
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from drf_yasg.utils import swagger_auto_schema
from rest_framework import (
    filters,
    generics,
    mixins,
    pagination,
    permissions,
    throttling,
    viewsets,
)
from rest_framework.decorators import action, api_view, permission_classes
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework_nested.viewsets import NestedViewSetMixin

from tests.circle.api.models import Company, Label, Project, Task
from tests.circle.api.serializers import (
    CompanySerializer,
    LabelSerializer,
    MoveSerializer,
    PersonSerializer,
    ProjectSerializer,
    ShortCompanySerializer,
    TaskSerializer,
)


class ByCursor(pagination.CursorPagination):
    page_size = 2
    ordering = "pk"


class ByNumber(pagination.PageNumberPagination):
    page_size = 2
    page_size_query_param = "per_page"


class Named(pagination.LimitOffsetPagination):
    """Has names of its own for the parts of a page."""

    default_limit = 2

    def get_paginated_response(self, data: Any) -> Response:
        links = {"next": self.get_next_link(), "previous": self.get_previous_link()}
        return Response({"links": links, "total": self.count, "items": data})


class IsStaffOrReads(permissions.BasePermission):
    def has_permission(self, request: Any, view: Any) -> bool:
        return request.method in permissions.SAFE_METHODS or bool(
            request.user and request.user.is_staff
        )


class CompanyFilter(django_filters.FilterSet):
    name = django_filters.CharFilter(lookup_expr="icontains")
    made = django_filters.DateFromToRangeFilter(field_name="made_at")
    label = django_filters.ModelMultipleChoiceFilter(
        field_name="projects__labels", queryset=Label.objects.all()
    )
    mine = django_filters.BooleanFilter(method="filter_mine")

    class Meta:
        model = Company
        fields = {"size": ["exact", "in", "isnull"], "is_active": ["exact"], "budget": ["gte"]}

    def filter_mine(self, queryset: Any, _name: str, value: bool) -> Any:
        own = queryset.filter(projects__owner=self.request.user.pk)
        return own if value else queryset


class CompanyViewSet(viewsets.ModelViewSet):
    """Companies; everybody who is signed in reads them."""

    queryset = Company.objects.prefetch_related("projects").order_by("pk")
    permission_classes = [permissions.IsAuthenticated & IsStaffOrReads]
    filter_backends = [DjangoFilterBackend, filters.SearchFilter, filters.OrderingFilter]
    filterset_class = CompanyFilter
    search_fields = ["^name", "=slug"]
    ordering_fields = ["name", "budget"]
    pagination_class = ByNumber
    lookup_field = "slug"

    def get_serializer_class(self) -> Any:
        return ShortCompanySerializer if self.action == "list" else CompanySerializer

    @extend_schema(responses=ShortCompanySerializer(many=True))
    @action(detail=False, pagination_class=None)
    def largest(self, request: Any) -> Response:
        """Show the companies with the most projects."""
        found = self.get_queryset().annotate(many=Count("projects")).order_by("-many", "pk")[:2]
        return Response(ShortCompanySerializer(found, many=True).data)

    @swagger_auto_schema(responses={200: ShortCompanySerializer(many=True)})
    @action(detail=False, pagination_class=None)
    def smallest(self, request: Any) -> Response:
        """Show the companies with the fewest projects."""
        found = self.get_queryset().annotate(many=Count("projects")).order_by("many", "pk")[:2]
        return Response(ShortCompanySerializer(found, many=True).data)

    @action(detail=True, methods=["get", "put", "delete"])
    def website(self, request: Any, slug: Any = None) -> Response:
        company = self.get_object()
        if request.method == "DELETE":
            company.website = None
            company.save()
        return Response({"website": company.website})


class ProjectViewSet(viewsets.ModelViewSet):
    """The projects of the user."""

    serializer_class = ProjectSerializer
    permission_classes = [permissions.IsAuthenticated]
    filter_backends = [DjangoFilterBackend, filters.OrderingFilter]
    filterset_fields = ["company", "starts", "labels"]
    ordering_fields = "__all__"
    pagination_class = ByCursor

    def get_queryset(self) -> Any:
        own = Project.objects.filter(owner=self.request.user)
        return own.select_related("company").prefetch_related("labels", "tasks").order_by("pk")

    @action(detail=False)
    def started(self, request: Any) -> Response:
        """Show the projects that have a start."""
        started = self.filter_queryset(self.get_queryset()).exclude(starts=None)
        page = self.paginate_queryset(started)
        if page is not None:
            return self.get_paginated_response(self.get_serializer(page, many=True).data)
        return Response(self.get_serializer(started, many=True).data)


class TaskViewSet(NestedViewSetMixin, viewsets.ModelViewSet):
    """The tasks of a project."""

    queryset = Task.objects.prefetch_related("steps").select_related("project").order_by("pk")
    serializer_class = TaskSerializer
    parent_lookup_kwargs = {"project_pk": "project__pk"}
    permission_classes = [permissions.DjangoModelPermissions]
    filter_backends = [DjangoFilterBackend]
    filterset_fields = {"state": ["exact"], "hours": ["gt", "lt"], "changed_at": ["date"]}

    def perform_create(self, serializer: Any) -> None:
        serializer.save(project=Project.objects.get(pk=self.kwargs["project_pk"]))

    @action(detail=True, methods=["post"], serializer_class=MoveSerializer)
    def move(self, request: Any, project_pk: Any = None, pk: Any = None) -> Response:
        """Move a task into another state."""
        task = self.get_object()
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        task.state = serializer.validated_data["state"]
        task.save()
        return Response({"state": task.state})


class OpenTaskViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """The open tasks of a project, by the variables of the URL alone."""

    serializer_class = TaskSerializer
    permission_classes = [permissions.DjangoModelPermissions]
    pagination_class = Named

    def get_queryset(self) -> Any:
        tasks = Task.objects.filter(project=self.kwargs["project_pk"], state="open")
        return tasks.select_related("project").prefetch_related("steps").order_by("pk")


class LabelViewSet(viewsets.GenericViewSet):
    """Labels, with functions that only the URLconf binds."""

    queryset = Label.objects.order_by("pk")
    serializer_class = LabelSerializer
    permission_classes = [permissions.IsAuthenticatedOrReadOnly]
    throttle_classes = [throttling.AnonRateThrottle]
    throttle_scope = "labels"

    def listing(self, request: Any) -> Response:
        """List all labels."""
        return Response(self.get_serializer(self.get_queryset(), many=True).data)

    def add(self, request: Any) -> Response:
        """Add a label."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data, status=201)


class LabelList(generics.ListCreateAPIView):
    """Labels, several at once."""

    queryset = Label.objects.order_by("pk")
    serializer_class = LabelSerializer
    permission_classes = [permissions.IsAdminUser]

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("many", self.request.method == "POST")
        return super().get_serializer(*args, **kwargs)


class OneLabel(generics.RetrieveUpdateDestroyAPIView):
    queryset = Label.objects.all()
    serializer_class = LabelSerializer
    permission_classes = [permissions.DjangoModelPermissionsOrAnonReadOnly]
    lookup_field = "word"
    lookup_url_kwarg = "label"


class Me(generics.RetrieveUpdateAPIView):
    """The signed-in user."""

    serializer_class = PersonSerializer
    permission_classes = [permissions.IsAuthenticated]

    def get_object(self) -> Any:
        return self.request.user


class Numbers(APIView):
    """Numbers of a year."""

    permission_classes = [permissions.IsAuthenticated]

    @extend_schema(
        parameters=[OpenApiParameter("unit", str, enum=["days", "hours"])],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Any, year: int, month: int | None = None, **kwargs: Any) -> Response:
        return Response({"year": year, "month": month, "unit": request.query_params.get("unit")})


@extend_schema(responses={200: PersonSerializer(many=True)})
@api_view(["GET"])
@permission_classes([permissions.IsAdminUser])
def staff(request: Any) -> Response:
    """List the staff."""
    people = PersonSerializer.Meta.model.objects.filter(is_staff=True).order_by("pk")
    return Response(PersonSerializer(people, many=True).data)
