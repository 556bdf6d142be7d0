"""Operations that `tests.benchmarks.views` compares with their tools."""

from datetime import datetime
from itertools import count
from typing import Any

from django.utils import timezone
from ninja import Router, Schema

from example_project.shop.models import Order

router = Router()
_numbers = count()


class OrderOut(Schema):
    number: str
    status: str
    note: str
    placed_at: datetime


class OrderIn(Schema):
    status: str = "placed"
    note: str = ""


class OrderChange(Schema):
    note: str


@router.get("/orders", response=list[OrderOut])
def list_orders(request: Any) -> Any:
    return Order.objects.order_by("number")


@router.get("/orders/{number}", response=OrderOut)
def get_order(request: Any, number: str) -> Any:
    return Order.objects.get(number=number)


@router.post("/orders", response=OrderOut)
def create_order(request: Any, data: OrderIn) -> Any:
    number = f"n-{next(_numbers)}"
    return Order.objects.create(number=number, placed_at=timezone.now(), **data.dict())


@router.patch("/orders/{number}", response=OrderOut)
def update_order(request: Any, number: str, data: OrderChange) -> Any:
    order = Order.objects.get(number=number)
    order.note = data.note
    order.save()
    return order
