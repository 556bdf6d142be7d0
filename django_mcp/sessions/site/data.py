"""`ctx.session` in the database: a row for each key, or one of Django's own sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any
from uuid import UUID

from django.conf import settings as site_settings
from django.db import IntegrityError, connections, router, transaction
from django.db.models import Count, Q, Sum
from django.utils.crypto import salted_hmac

from django_mcp.execution.own_writes import write_in_pool
from django_mcp.execution.primary import reading_primary
from django_mcp.execution.tables import Usage, caller_of, insert_missing
from django_mcp.execution.threads import run_in_pool
from django_mcp.models.sessions import Session as SessionRow
from django_mcp.models.sessions import SessionItem
from django_mcp.protocol.json import decode, encode
from django_mcp.server.exchange.quotas import Limits
from django_mcp.server.exchange.session import Session
from django_mcp.server.exchange.session_data import (
    SESSION_ENDED,
    NoSession,
    SessionData,
    check_blocking,
    check_bounds,
    refuse_data,
)

_EXPIRY = "_session_expiry"

_usage = Usage(
    SessionItem.objects.all,
    "size",
    Limits(
        own_count=100_000,
        own_bytes=64 * 1024 * 1024,
        count=5_000_000,
        bytes=1024 * 1024 * 1024,
    ),
)


class RowData(SessionData):
    """Data in rows of `SessionItem`; concurrent writes to different keys do not conflict."""

    __slots__ = ("_caller", "_session")

    def __init__(self, session: Session) -> None:
        self._caller = caller_of(session)
        self._session = UUID(session.key)

    def _rows(self, key: str | None) -> Any:
        check_blocking()
        rows = SessionItem.objects.filter(session_id=self._session)
        if key is None:
            return rows
        # Not every database accepts this character.
        return rows.none() if "\0" in key else rows.filter(key=key)

    def _read(self, key: str | None) -> dict[str, Any]:
        return dict(self._rows(key).order_by("pk").values_list("key", "value"))

    def _write(self, items: Mapping[str, bytes], *, is_new: bool) -> None:
        check_blocking()
        is_replaced = Q(items__key__in=items)
        row = SessionRow.objects.filter(pk=self._session).values("pk")
        counts = row.annotate(
            count=Count("items"),
            bytes=Sum("items__size"),
            replaced=Count("items", filter=is_replaced),
            replaced_bytes=Sum("items__size", filter=is_replaced),
        ).first()
        if counts is None:
            raise NoSession(SESSION_ENDED)
        count = len(items) - counts["replaced"]
        added = sum(len(key) + len(value) for key, value in items.items())
        size = added - (counts["replaced_bytes"] or 0)
        check_bounds(counts["count"] + count, (counts["bytes"] or 0) + size)
        scope = _usage.take(self._caller, size, count=count)
        if scope is not None:
            refuse_data(scope)
        rows = [
            SessionItem(
                session_id=self._session, key=key, value=decode(value), size=len(key) + len(value)
            )
            for key, value in sorted(items.items())
        ]
        try:
            _insert(rows, is_new=is_new)
        except IntegrityError:
            # It has ended since it was read.
            raise NoSession(SESSION_ENDED) from None

    def _remove(self, key: str | None) -> bool:
        return bool(self._rows(key).delete()[0])

    _run = staticmethod(run_in_pool)
    _run_write = staticmethod(write_in_pool)


def _insert(rows: list[SessionItem], *, is_new: bool) -> None:
    if is_new:
        insert_missing(rows, "key")
        return
    connection = connections[router.db_for_write(SessionItem)]
    has_target = connection.features.supports_update_conflicts_with_target
    SessionItem.objects.bulk_create(
        rows,
        update_conflicts=True,
        update_fields=["value", "size"],
        unique_fields=["session", "key"] if has_target else None,
    )


@reading_primary()
def drop_engine_data(session_keys: Iterable[str]) -> None:
    """Delete the data of sessions that have ended from sessions of the site's `SESSION_ENGINE`."""
    # Loads the settings' engine, and Django's models with it.
    from django.contrib.sessions.backends.db import SessionStore as DatabaseStore

    store = import_module(site_settings.SESSION_ENGINE).SessionStore
    keys = [_engine_key(key) for key in session_keys]
    if getattr(store, "delete", None) is DatabaseStore.delete:
        store.get_model_class()._default_manager.filter(session_key__in=keys).delete()
        return
    # An engine of another kind has more than rows.
    for key in keys:
        store().delete(key)


def _engine_key(session_key: str) -> str:
    engine_key = salted_hmac(
        "django_mcp.sessions.data", session_key, algorithm="sha256"
    ).hexdigest()
    return engine_key[:32]


class EngineData(SessionData):
    """Data in a session of the site's `SESSION_ENGINE`; the last of two concurrent writes wins.

    Its key is derived with the site's secret key, so that no browser can name it.
    """

    __slots__ = ("_key", "_max_age_s", "_session")

    def __init__(self, session_key: str, max_age_s: float) -> None:
        self._session = UUID(session_key)
        self._key = _engine_key(session_key)
        self._max_age_s = int(max_age_s)

    @reading_primary()
    def _load(self) -> tuple[Any, dict[str, Any], bool]:
        check_blocking()
        store = import_module(site_settings.SESSION_ENGINE).SessionStore(self._key)
        loaded = store.load()
        loaded.pop(_EXPIRY, None)
        # A store drops its key if the session does not exist.
        is_there = store.session_key == self._key
        return store, loaded if is_there else {}, is_there

    @reading_primary()
    def _save(self, store: Any, found: dict[str, Any], *, is_there: bool) -> None:
        check_bounds(len(found), len(encode(found)))
        store._session_key = self._key
        store._session_cache = found
        store.set_expiry(self._max_age_s)
        store.save(must_create=not is_there)

    def _read(self, key: str | None) -> dict[str, Any]:
        items = self._load()[1]
        if key is None:
            return items
        return {key: items[key]} if key in items else {}

    def _write(self, items: Mapping[str, bytes], *, is_new: bool) -> None:
        store, items_there, is_there = self._load()
        if not SessionRow.objects.filter(pk=self._session).exists():
            raise NoSession(SESSION_ENDED)
        given = {key: decode(value) for key, value in items.items()}
        self._save(
            store,
            {**given, **items_there} if is_new else {**items_there, **given},
            is_there=is_there,
        )
        # What ends the session meanwhile does not see data that is not committed yet.
        using = router.db_for_write(SessionRow)
        transaction.on_commit(self._drop_if_ended, using=using, robust=True)

    def _drop_if_ended(self) -> None:
        if not SessionRow.objects.filter(pk=self._session).exists():
            drop_engine_data([self._session.hex])

    @reading_primary()
    def _remove(self, key: str | None) -> bool:
        store, items, is_there = self._load()
        if key is None:
            store.delete(self._key)
            return True
        if key not in items:
            return False
        del items[key]
        self._save(store, items, is_there=is_there)
        return True

    _run = staticmethod(run_in_pool)
    _run_write = staticmethod(write_in_pool)
