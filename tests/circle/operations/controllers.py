"""Controllers of django-ninja-extra: permissions, pages, ordering, search, models and JWT."""

from typing import Any

from ninja_extra import (
    ModelConfig,
    ModelControllerBase,
    ModelSchemaConfig,
    NinjaExtraAPI,
    api_controller,
    http_delete,
    http_get,
    http_post,
    permissions,
)
from ninja_extra.exceptions import NotFound
from ninja_extra.ordering import Ordering, ordering
from ninja_extra.pagination import (
    PageNumberPaginationExtra,
    PaginatedResponseSchema,
    paginate,
)
from ninja_extra.searching import Searching, searching
from ninja_jwt.authentication import JWTAuth
from ninja_jwt.controller import NinjaJWTDefaultController

from tests.circle.operations.models import Author, Volume
from tests.circle.operations.schemas import AuthorOut, Message


class HasHeader(permissions.BasePermission):
    def has_permission(self, request: Any, controller: Any) -> bool:
        return bool(request.headers.get("X-Team") == "editors")


class IsFirst(permissions.BasePermission):
    def has_permission(self, request: Any, controller: Any) -> bool:
        return True

    def has_object_permission(self, request: Any, controller: Any, obj: Any) -> bool:
        first = Author.objects.order_by("pk").first()
        return obj == first


@api_controller("/people", tags=["People"], permissions=[permissions.IsAuthenticated])
class PeopleController:
    context: Any

    @http_get("/", response=PaginatedResponseSchema[AuthorOut])
    @paginate(PageNumberPaginationExtra, page_size=50)
    @ordering(Ordering, ordering_fields=["name"])
    @searching(Searching, search_fields=["name"])
    def list_people(self) -> Any:
        return Author.objects.order_by("pk")

    @http_get("/match", response=list[AuthorOut])
    @searching(Searching, search_fields=["$name"])
    def match_people(self) -> Any:
        return Author.objects.order_by("pk")

    @http_get("/{int:pk}", response=AuthorOut, permissions=[permissions.IsAuthenticated, IsFirst])
    def get_person(self, pk: int) -> Any:
        return self.get_object_or_exception(Author, pk=pk)  # type: ignore[attr-defined]

    @http_post("/", response={201: AuthorOut}, permissions=[permissions.IsAdminUser])
    def create(self, person: AuthorOut) -> Any:
        return 201, Author.objects.create(name=person.dict()["name"])

    @http_get("/all", permissions=[permissions.AllowAny], response=list[AuthorOut])
    def everybody(self) -> Any:
        return Author.objects.order_by("pk")

    @http_get("/me", permissions=[permissions.IsAuthenticatedOrReadOnly])
    async def me(self) -> Any:
        return {"name": str(self.context.request.user)}

    @http_get("/missing", operation_id="find_missing", response={404: Message})
    def missing(self) -> Any:
        raise NotFound("nobody")


@api_controller(
    "/teams/{int:team_id}",
    permissions=[permissions.IsAuthenticated & (permissions.IsAdminUser | HasHeader)],
)
class TeamController:
    @http_get("/members")
    def list_members(self, team_id: int) -> Any:
        return [team_id]

    @http_delete("/members/{int:pk}")
    def remove(self, team_id: int, pk: int) -> Any:
        return {"removed": pk}


@api_controller("/volumes", auth=JWTAuth())
class VolumeModelController(ModelControllerBase):
    model_config = ModelConfig(
        model=Volume,
        schema_config=ModelSchemaConfig(
            read_only_fields=["id"], exclude={"cover", "extra", "others"}
        ),
    )


api = NinjaExtraAPI(urls_namespace="controllers")
api.register_controllers(
    PeopleController, TeamController, VolumeModelController, NinjaJWTDefaultController
)
