"""The example shop, as third-party clients start it over stdio."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.sites import ROOT, environment

SHOP = "example_project"
LIMIT_S = 30.0

MANY = 10_000
"""Orders of the one customer: an export of them takes long enough to be given up."""

FILL = f"""
from django.utils import timezone
from example_project.shop.models import Order
order = Order.objects.exclude(customer=None).first()
Order.objects.bulk_create(
    Order(number=f"B-{{n:05}}", customer=order.customer, placed_at=timezone.now())
    for n in range({MANY})
)
print(order.number, order.customer)
"""
COUNT = """
from django_mcp.models import CallRecord
print(CallRecord.objects.filter(name="export_orders", outcome="cancelled").count())
"""


@dataclass(frozen=True)
class Shop:
    """A shop's database, an order in it, and its customer."""

    database: Path
    number: str
    user: str

    @classmethod
    def prepare(cls, database: Path) -> Shop:
        manage(SHOP, "demo", "--prepare", SHOP_DATABASE=str(database))
        told = manage(SHOP, "shell", "-v", "0", "-c", FILL, SHOP_DATABASE=str(database))
        number, user = told.split()[-2:]
        return cls(database, number, user)

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(ROOT / "manage.py"), "mcp_stdio", "--user", self.user]

    @property
    def extra(self) -> dict[str, str]:
        return {"SHOP_DATABASE": str(self.database)}

    @property
    def env(self) -> Mapping[str, str]:
        return environment(SHOP, self.extra)

    def count_cancelled(self) -> int:
        """Return how many exports were cancelled, according to the shop's record of calls."""
        return int(manage(SHOP, "shell", "-v", "0", "-c", COUNT, **self.extra).split()[-1])

    def wait_for_cancelled(self, count: int) -> None:
        """Wait until so many exports were cancelled: calls are recorded a moment after they end."""
        until_s = time.monotonic() + LIMIT_S
        while self.count_cancelled() < count:
            assert time.monotonic() < until_s, "the export was not given up"


def manage(package: str, *arguments: str, **extra: str) -> str:
    """Run a command of a site in a process of its own, and return what it prints."""
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        env=environment(package, extra),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
