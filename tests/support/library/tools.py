"""The samples as tools of each source: `ModelTools`, the admin, a REST view and a Ninja API."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django_filters.rest_framework import DjangoFilterBackend, FilterSet
from rest_framework import filters, pagination, permissions, serializers, viewsets

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from tests.support.library.api import make_api
from tests.support.library.models import Part, Sample, Tag

COLUMNS = [
    each.name
    for each in Sample._meta.concrete_fields
    if not each.primary_key and each.name not in ("owner", "scan")
]
_ORDERED = ("gt", "gte", "lt", "lte", "in", "range")
LOOKUPS = [
    *(f"{name}__{lookup}" for name in COLUMNS for lookup in _ORDERED if not name.startswith("is_")),
    *(f"{name}__isnull" for name in ("is_known", "day", "took", "address")),
    *(f"{name}__icontains" for name in ("label", "note", "address", "data", "uid")),
    *(
        f"{name}__{each}"
        for name in ("day", "moment")
        for each in ("year", "month", "iso_year__gte")
    ),
    *("moment__date__lte", "moment__time", "clock__hour", "day__week_day", "day__year__in"),
    *("data__has_key", "data__has_keys", "data__has_any_keys", "data__a", "data__a__b__gt"),
    *("data__a__icontains", "data__a__in", "data__a__isnull", "data__0__lte"),
    *(
        "owner",
        "owner__username",
        "owner__id__in",
        "tags",
        "tags__in",
        "tags__name",
        "pk",
        "id__lt",
    ),
    *("parts__name", "parts__id", "parts"),
]


class Samples(ModelTools):
    model = Sample
    fields = ("id", *COLUMNS, "owner", "tags", "parts__name")
    filters = (*COLUMNS, *LOOKUPS)
    search = ("code", "note", "^label", "=mail", "parts__name")
    sortable_by = ("code", "size", "price", "moment", "took", "address")
    writes = ("create", "update", "delete")
    lookup_field = "code"
    version_field = ""
    everyone = True

    def has_permission(self, user: Any, action: str) -> bool:
        return True


class Tags(ModelTools):
    """Their keys are UUIDs."""

    model = Tag
    fields = ("id", "name")
    everyone = True


class Parts(ModelTools):
    """Their keys are numbers."""

    model = Part
    fields = ("id", "name", "sample__code")
    everyone = True


class Owners(ModelTools):
    """Some are hidden, so values, filters and orders that lead to them are judged."""

    model = User
    fields = ("id", "username", "sample__code", "sample__parts__name")
    filters = ("sample__code", "sample__parts__isnull", "sample__owner__username")

    def get_queryset(self, user: Any) -> Any:
        return User.objects.filter(username__lt="p") | User.objects.filter(pk=user.pk)


class SampleAdmin(admin.ModelAdmin):
    list_display = ["code", *COLUMNS[1:], "owner", "tag_names"]
    list_filter = [
        *COLUMNS[1:], "owner", "tags", "parts__name", ("note", admin.EmptyFieldListFilter),
        ("size", admin.AllValuesFieldListFilter),
    ]  # fmt: skip
    search_fields = ["code", "^label", "=note", "parts__name", "size", "data"]
    date_hierarchy = "moment"
    actions = ["close"]

    def tag_names(self, sample: Sample) -> str:
        return ", ".join(each.name for each in sample.tags.all())

    @admin.action(description="Close")
    def close(self, request: Any, queryset: Any) -> None:
        queryset.update(is_open=False)


def make_site() -> admin.AdminSite:
    """Return an admin of the samples, of what they refer to, and of users."""
    site = admin.AdminSite("samples")
    site.register(Sample, SampleAdmin)
    site.register(Part, list_filter=["sample", "sample__size", "name"], search_fields=["name"])
    site.register(Tag, search_fields=["name", "id"])
    site.register(User, UserAdmin)
    site.register(Group, GroupAdmin)
    return site


class PartSerializer(serializers.ModelSerializer):
    class Meta:
        model = Part
        fields = ("name",)


class SampleSerializer(serializers.ModelSerializer):
    parts = PartSerializer(many=True, read_only=True)

    class Meta:
        model = Sample
        fields = "__all__"


class SampleFilter(FilterSet):
    class Meta:
        model = Sample
        fields = {
            **{name: ["exact"] for name in COLUMNS if name != "data"},
            **{name: ["gte", "lt", "exact"] for name in ("size", "price", "ratio", "weight", "took", "moment", "clock", "day")},
            "label": ["icontains", "in"],
            "level": ["in", "range"],
            "owner": ["exact"],
            "tags": ["exact"],
        }  # fmt: skip


class SampleViewSet(viewsets.ModelViewSet):
    queryset = Sample.objects.all()
    serializer_class = SampleSerializer
    permission_classes = (permissions.AllowAny,)
    filter_backends = (DjangoFilterBackend, filters.SearchFilter, filters.OrderingFilter)
    filterset_class = SampleFilter
    search_fields = ("code", "label", "note", "parts__name")
    pagination_class = pagination.LimitOffsetPagination


class PartViewSet(viewsets.ModelViewSet):
    """Has cursors as pages."""

    queryset = Part.objects.all()
    serializer_class = PartSerializer
    permission_classes = (permissions.AllowAny,)
    pagination_class = type(
        "Cursors", (pagination.CursorPagination,), {"ordering": "id", "page_size": 5}
    )


def make_server(name: str = "samples", **options: Any) -> MCPServer:
    """Return a server with the tools of all sources; each may do everything to the samples."""
    server = MCPServer(name, public=True, **{"max_result_tokens": None, **options})
    Samples.register(server=server)
    Tags.register(server=server)
    Parts.register(server=server)
    Owners.register(server=server)
    labels = ["library.sample", "library.part", "library.tag", "auth.user", "auth.group"]
    admin_tools(
        server=server,
        site=make_site(),
        models=labels,
        prefix="admin_",
        exclude=["auth.user.delete"],
    )
    viewset_tools(SampleViewSet, server=server, prefix="rest")
    viewset_tools(PartViewSet, server=server, prefix="rest_part")
    operation_tools(make_api(), server=server, prefix="ninja")
    return server
