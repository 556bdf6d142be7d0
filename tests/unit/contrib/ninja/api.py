"""An API of the shop made with Django Ninja, for the tests of `operation_tools`."""

from datetime import date
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import File, Form, Header, NinjaAPI, Query, Router, Schema, UploadedFile
from ninja.errors import HttpError
from ninja.pagination import LimitOffsetPagination, PageNumberPagination, paginate
from ninja.responses import Status
from ninja.security import HttpBearer, SessionAuth, django_auth
from ninja.security.session import SessionAuthIsStaff
from ninja.throttling import BaseThrottle
from pydantic import Field

from example_project.shop.models import Order


class LineIn(Schema):
    sku: str
    quantity: int = Field(ge=1)


class OrderIn(Schema):
    note: str = Field("", max_length=20, description="For the packer.")
    lines: list[LineIn]


class OrderOut(Schema):
    number: str
    status: str


class Filters(Schema):
    status: str | None = None
    since: date | None = None


class Never(BaseThrottle):
    def allow_request(self, request: Any) -> bool:
        return False

    def wait(self) -> float:
        return 30


class Token(HttpBearer):
    def authenticate(self, request: Any, token: str) -> Any:
        return token == "secret" and token


def make_api() -> NinjaAPI:
    api = NinjaAPI()
    api.add_router("/shop", make_orders())
    add_others(api)
    add_pages(api)
    return api


def make_orders() -> Router:
    orders = Router(auth=SessionAuth(), tags=["orders"])

    @orders.get("/orders", response=list[OrderOut])
    @paginate(LimitOffsetPagination)
    def list_orders(request: Any, filters: Query[Filters]) -> Any:
        """List your orders."""
        found = Order.objects.filter(customer=request.auth).order_by("number")
        return found.filter(status=filters.status) if filters.status else found

    @orders.get("/orders/{number}", response=OrderOut)
    def get_order(request: Any, number: str) -> Any:
        return get_object_or_404(Order, number=number, customer=request.auth)

    @orders.post("/orders", response={201: OrderOut})
    def place_order(request: Any, data: OrderIn) -> Any:
        order = Order.objects.create(
            customer=request.user, note=data.note, placed_at="2026-01-01T00:00Z"
        )
        if data.note == "fail":
            raise HttpError(409, "The shop is closed.")
        return Status(201, order)

    @orders.delete("/orders/{number}", response={204: None})
    def delete_order(request: Any, number: str) -> Any:
        get_object_or_404(Order, number=number, customer=request.auth).delete()
        return Status(204, None)

    @orders.put("/orders/{number}/note")
    def set_note(request: Any, number: str, note: Form[str], tags: Form[list[str]]) -> Any:
        return {"number": number, "note": note, "tags": tags}

    return orders


def add_others(api: NinjaAPI) -> None:
    @api.post("/sum")
    def add_up(request: Any, numbers: list[int]) -> Any:
        return sum(numbers)

    @api.get("/staff", auth=SessionAuthIsStaff())
    def staff_only(request: Any) -> Any:
        return request.user.get_username()

    @api.get("/slow", throttle=[Never()])
    def throttled(request: Any) -> Any:
        return {}

    @api.get("/later", auth=django_auth)
    async def later(request: Any) -> Any:
        return {"user": request.user.get_username()}

    @api.get("/users", response=list[str])
    def user_names(request: Any) -> Any:
        return list(User.objects.order_by("pk").values_list("username", flat=True))

    @api.get("/hidden", include_in_schema=False)
    def hidden(request: Any) -> Any:
        return {}

    @api.get("/csv")
    def download(request: Any) -> Any:
        return HttpResponse("a,b", content_type="text/csv")


def add_pages(api: NinjaAPI) -> None:
    @api.get("/pages", response=list[OrderOut])
    @paginate(PageNumberPagination)
    def pages(request: Any) -> Any:
        return Order.objects.order_by("number")

    @api.get("/rows", response=list[OrderOut])
    @paginate(LimitOffsetPagination)
    def rows(request: Any) -> Any:
        return Order.objects.order_by("number")

    @api.post("/photo")
    def name_photo(request: Any, name: Form[str], photo: File[UploadedFile | None] = None) -> Any:
        return {"name": name, "has_photo": photo is not None}


def make_difficult_api() -> NinjaAPI:
    api = NinjaAPI(urls_namespace="difficult")

    @api.get("/token", auth=Token())
    def with_token(request: Any) -> Any:
        return {"auth": str(request.auth)}

    @api.post("/file")
    def upload(request: Any, file: File[UploadedFile]) -> Any:
        return {}

    @api.get("/header")
    def with_header(request: Any, x_trace: Header[str]) -> Any:
        return {}

    @api.put("/orders/{number}")
    def clashing(request: Any, number: str, data: OrderOut) -> Any:
        return {"old": number, "new": data.number}

    return api
