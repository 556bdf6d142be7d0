"""The rows that generated tools find, made anew again and again, since calls change and delete them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User

from example_project.shop.models import Order, OrderLine, Product
from tests.support.library.models import Part, Sample, Tag

MOMENT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_rows(user: User) -> dict[str, list[Any]]:
    """Return the keys of a few new rows of each model, by the names of the arguments that take them."""
    for model in (Part, Sample, Tag, OrderLine, Order, Product, Group, LogEntry):
        model._default_manager.all().delete()
    User.objects.exclude(pk=user.pk).delete()
    User.objects.filter(pk=user.pk).update(is_active=True, is_staff=True, is_superuser=True)
    tags = [Tag.objects.create(id=UUID(int=n), name=f"tag {n}") for n in range(3)]
    samples = [_make_sample(n, user) for n in range(4)]
    for each in samples[1:]:
        each.tags.set(tags)
        Part.objects.create(sample=each, name="part")
    group = Group.objects.create(name="group")
    other = User.objects.create_user("other")
    products = [
        Product.objects.create(sku=f"p-{n}", name=f"Pot {n}", category="kitchen", price=n)
        for n in range(2)
    ]
    order = Order.objects.create(number="A-1", customer=user, status="placed", placed_at=MOMENT)
    OrderLine.objects.create(order=order, product=products[0], quantity=1, unit_price=1)
    keys = [each.pk for each in samples]
    parts = [each.pk for each in Part.objects.all()]
    tag_keys = [str(each.pk) for each in tags]
    some_ids = [
        *keys,
        *parts,
        order.pk,
        *(each.pk for each in products),
        other.pk,
        group.pk,
        *tag_keys,
    ]
    return {
        "id": some_ids, "pk": some_ids, "key": keys, "ids": [[each] for each in some_ids], "sample": keys,
        "code": [each.code for each in samples], "tags": [tag_keys], "owner": [other.pk], "customer": [other.pk],
        "number": ["A-1"], "sku": ["p-0", "p-1"], "product": [each.pk for each in products],
    }  # fmt: skip


def _make_sample(number: int, user: User) -> Sample:
    if not number:
        return Sample.objects.create(code="empty")
    return Sample.objects.create(
        code=f"s-{number}", owner=user, label="label", note="note", size=number, price=Decimal("1.50"), ratio=0.5,
        day=date(2026, 1, number), moment=MOMENT, clock=time(12), took=timedelta(days=number), address="::1",
        uid=UUID(int=number), data={"a": {"b": number}} if number > 1 else [1, {"a": "b"}],
    )  # fmt: skip
