"""Orders of two customers."""

from __future__ import annotations

from tests.unit.contrib.models.conftest import ann, bob, orders  # noqa: F401
