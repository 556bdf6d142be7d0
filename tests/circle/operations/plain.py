"""Operations of Django Ninja: nested routers, versions, filters, pages, forms, files and several responses."""

from typing import Any, Literal

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import NinjaAPI, PatchDict, Path, Query, Router
from ninja.errors import HttpError
from ninja.pagination import LimitOffsetPagination, PageNumberPagination, paginate
from ninja.responses import Status
from ninja.security import HttpBearer, django_auth, django_auth_is_staff
from ninja.throttling import AuthRateThrottle

from tests.circle.operations.models import Author, Volume
from tests.circle.operations.reviews import reviews
from tests.circle.operations.schemas import (
    AuthorOut,
    AuthorWithVolumes,
    Day,
    Message,
    VolumeFilters,
    VolumeIn,
    VolumeOut,
    VolumeShort,
)


class Bearer(HttpBearer):
    def authenticate(self, request: Any, token: str) -> Any:
        return token == "only-for-tests" and token


def is_superuser(request: Any) -> Any:
    return request.user.is_superuser and request.user


volumes = Router(tags=["volumes"])


@volumes.get("/", response=list[VolumeOut])
@paginate(LimitOffsetPagination)
def list_volumes(
    request: Any, filters: Query[VolumeFilters], order: Literal["title", "-title"] = "title"
) -> Any:
    found = Volume.objects.select_related("author").prefetch_related("others")
    return filters.filter(found).order_by(order)


@volumes.get("/{volume_id}", response={200: VolumeOut, 404: Message})
def get_volume(request: Any, volume_id: int) -> Any:
    volume = Volume.objects.filter(pk=volume_id).first()
    return Status(404, {"message": "no volume"}) if volume is None else volume


@volumes.post("/", response={201: VolumeOut}, auth=[Bearer(), django_auth])
def create_volume(request: Any, data: VolumeIn) -> Any:
    get_object_or_404(Author, pk=data.author_id)
    values = {"changed_at": "2026-01-01T00:00Z", "number": "00000000-0000-0000-0000-0000000000fe"}
    volume = Volume.objects.create(**data.dict(), **values)
    volume.refresh_from_db()
    return Status(201, volume)


@volumes.patch("/{volume_id}", response=VolumeOut, auth=django_auth)
def update_volume(request: Any, volume_id: int, data: PatchDict[VolumeIn]) -> Any:
    volume = get_object_or_404(Volume, pk=volume_id)
    for name, value in data.items():
        setattr(volume, name, value)
    volume.save()
    return volume


@volumes.delete("/{volume_id}", response={204: None}, auth=is_superuser)
def delete_volume(request: Any, volume_id: int) -> Any:
    get_object_or_404(Volume, pk=volume_id).delete()
    return Status(204, None)


@volumes.get("/short/all", response=list[VolumeShort], exclude_none=True)
def short(request: Any) -> Any:
    return list(Volume.objects.order_by("pk").values("id", "title", "price"))


volumes.add_router("/{volume_id}/reviews", reviews)
authors = Router(tags=["authors"], auth=django_auth)


@authors.get("/", response=list[AuthorOut])
@paginate(PageNumberPagination, page_size=2)
def list_all(request: Any) -> Any:
    return Author.objects.order_by("pk")


@authors.get("/open", auth=None)
def whoami(request: Any) -> Any:
    return {"name": str(request.user)}


@authors.get("/staff", auth=django_auth_is_staff)
async def for_staff(request: Any) -> Any:
    return {"name": request.auth.username}


@authors.get("/{author_id}", response=AuthorWithVolumes)
async def get_author(request: Any, author_id: int) -> Any:
    author = await Author.objects.prefetch_related("volumes").filter(pk=author_id).afirst()
    if author is None:
        raise HttpError(404, "no author")
    return author


@authors.get("/days/{year}/{month}", throttle=[AuthRateThrottle("1000/s")])
def on_day(request: Any, day: Path[Day]) -> Any:
    return day.dict()


@authors.api_operation(["PUT", "POST"], "/{author_id}/names")
def rename(request: Any, author_id: int, names: list[str]) -> Any:
    return {"method": request.method, "names": names}


@authors.get("/export/csv")
def export(request: Any) -> Any:
    return HttpResponse("name\n", content_type="text/csv")


first = NinjaAPI(version="1")
first.add_router("/volumes", volumes)
first.add_router("/authors", authors)
second = NinjaAPI(version="2", auth=django_auth)


@second.get("/count")
def count(request: Any) -> Any:
    return Author.objects.count()
