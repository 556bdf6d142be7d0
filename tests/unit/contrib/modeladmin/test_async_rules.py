"""A rule of an admin that is asynchronous grants nothing, since a coroutine counts as true."""

from __future__ import annotations

from typing import Any

import pytest

from example_project.shop.models import Order
from tests.unit.contrib.modeladmin.conftest import Orders


async def judge(*_args: Any, **_kwargs: Any) -> bool:
    return False


# Django itself calls some of them, and does not await them either.
@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    ("rule", "tool"),
    [
        ("has_view_or_change_permission", "get_order"),
        ("has_delete_permission", "delete_order"),
        ("has_module_permission", "get_order"),
    ],
)
def test_an_asynchronous_rule_of_an_admin_grants_nothing(
    site: Any, make_client: Any, root: Any, orders: Any, rule: str, tool: str
):
    site.unregister(Order)
    site.register(Order, type("AsyncOrders", (Orders,), {rule: judge}))
    client = make_client(root)

    assert tool not in {each["name"] for each in client.list_tools()}
    with pytest.raises(LookupError):
        client.call(tool, id=orders[0].pk)
