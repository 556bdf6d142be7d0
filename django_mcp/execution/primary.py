"""Reads of tables of Django and of other packages, from the database that they are written to.

The package's own tables are always read there: see `django_mcp.models.primary`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.db.models import Model


@contextmanager
def reading_primary() -> Iterator[None]:
    """Send reads of all tables to their alias for writes while the block runs; also a decorator.

    A replica does not show yet what was just written, such as an authorization code, and still shows
    what was just deleted, such as a revoked token. Querysets have to be evaluated inside of the block.
    """
    # Loads `django.db`, which importing a server must not.
    from django.db import router

    if _router not in router.routers:
        # At first, and after a test has overridden `DATABASE_ROUTERS`.
        router.routers.insert(0, _router)
    token = _is_reading.set(True)
    try:
        yield
    finally:
        _is_reading.reset(token)


_is_reading = ContextVar("django_mcp_reading_primary", default=False)


class _PrimaryRouter:
    """Chooses the alias for reads inside of `reading_primary()`, and has no opinion elsewhere."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        if not _is_reading.get():
            return None
        from django.db import router

        return router.db_for_write(model, **hints)


_router = _PrimaryRouter()
