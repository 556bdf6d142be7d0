from __future__ import annotations

import pytest

from tests.support.stdio.shop import Shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The example shop with a customer of many orders, on a database that processes share."""
    return Shop.prepare(tmp_path_factory.mktemp("shop") / "db.sqlite3")
