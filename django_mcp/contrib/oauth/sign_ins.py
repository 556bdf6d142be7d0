"""Tell what happened when a client signed in: a warning for each refusal, and rows for the admin.

Any step calls `report`. The view around it, which `reporting` decorates, writes the rows when it has
answered, so that no transaction that is rolled back takes them with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from functools import wraps
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.db import router, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponse, HttpResponseBase
from django.utils import timezone

from django_mcp.contrib.oauth.models import SignIn
from django_mcp.contrib.oauth.public import FORM
from django_mcp.endpoints.well_known import View
from django_mcp.execution.outages import Warner
from django_mcp.execution.tables import ANONYMOUS_PREFIX, delete_some, digest_of_quota
from django_mcp.log import logger
from django_mcp.process import PerProcess
from django_mcp.protocol.json import decode
from django_mcp.protocol.sanitize import clean, clean_if_text
from django_mcp.server.exchange.quotas import quota_key_of

Step = SignIn.Step

MINUTE_S = 60.0

EACH_PER_MINUTE = 20
"""Steps of one caller that a process logs and stores in a minute."""

ALL_PER_MINUTE = 600
"""Steps of all callers that a process logs and stores in a minute."""

EACH_KEPT = 100
"""Rows of one caller that are kept: the newest."""

ALL_KEPT = 10_000
"""Rows that are kept: the newest. Those without a user may take half of it."""

KEPT_DAYS = 30

TRIM_EVERY = 100
"""Rows that a process writes before it looks at the size of the table."""

_trouble, _too_many = Warner(), Warner()


class _ReportShares:
    """Counts what this process reports in a minute: of each caller, and in all."""

    def __init__(self) -> None:
        self._until_s = 0.0
        self._used: dict[str, int] = {}
        self._total = 0
        self._written = 0

    def take(self, caller: str) -> bool:
        """Count a step of a caller; return whether it may be reported."""
        now_s = time.monotonic()
        if now_s >= self._until_s:
            self._until_s, self._total, self._used = now_s + MINUTE_S, 0, {}
        own = self._used.get(caller, 0)
        if own >= EACH_PER_MINUTE or self._total >= ALL_PER_MINUTE:
            return False
        # Each key was counted, so there are no more of them than of steps.
        self._used[caller] = own + 1
        self._total += 1
        return True

    def is_trim_due(self) -> bool:
        """Count a written row; return whether to look at the size of the table: first of all, and now and then."""
        self._written += 1
        return self._written % TRIM_EVERY == 1


class SignInRefused(Exception):
    """What a client sent is refused.

    Attributes:
        field: the parameter or key of the metadata that is at fault.
        reason: what is wrong with it, in one sentence that may be shown to anybody.
        remedy: what the maker of the client can do.
    """

    def __init__(self, field: str, reason: str, remedy: str) -> None:
        super().__init__(f"{field}: {reason} {remedy}")
        self.field = field
        self.reason = reason
        self.remedy = remedy


_shares = PerProcess(_ReportShares, settings=("DJANGO_MCP", "DATABASES"))

_pending: ContextVar[list[SignIn] | None] = ContextVar("django_mcp_oauth_sign_ins", default=None)
"""The rows of the view that runs in this context; None: none runs."""


def report(
    step: Step,
    request: Any,
    *,
    client: Any = None,
    user: Any = None,
    field: str = "",
    reason: str = "",
    remedy: str = "",
) -> None:
    """Report that a client reached a step, or with a `reason` that it was refused there.

    A refusal is one warning in the log. Both are rows under "Sign-ins" in the admin. Above the limits of
    this module neither is. It never raises and never fails the request.

    Args:
        step: where the client is.
        request: Django's or oauthlib's.
        client: its application, or the `client_id` that it sent; None: it has none yet.
        user: who is signed in, or whose token it is.
        field: the parameter or key of the metadata that is wrong, such as `redirect_uris`.
        reason: what is wrong with it, in English and without secrets.
        remedy: what to do about it, and who.
    """
    # A step must not fail because of its report.
    try:
        row = _to_row(step, request, client, user, field, reason, remedy)
        if not _shares.get().take(row.caller):
            _too_many.warn(
                "More sign-ins than %s a minute of one caller are not told", EACH_PER_MINUTE
            )
            return
        if row.is_refused:
            logger.warning(
                "OAuth: %s: refused for client %r at %s: %s%s. %s",
                row.step,
                row.client_id or row.client_name,
                row.address or "an unknown address",
                f"{row.field}: " if row.field else "",
                row.reason,
                row.remedy,
            )
        pending = _pending.get()
        if pending is None:
            _write([row])
        else:
            pending.append(row)
    except Exception as error:  # noqa: BLE001 - see above
        _trouble.warn("A sign-in could not be reported: %r", error)


def report_refused(
    step: Step, request: Any, refused: SignInRefused, client: Any = None, user: Any = None
) -> None:
    """Report a refusal at a step; see `report`."""
    report(
        step,
        request,
        client=client,
        user=user,
        field=refused.field,
        reason=refused.reason.rstrip("."),
        remedy=refused.remedy,
    )


def reporting(step: Step) -> Callable[[View], View]:
    """Let a view write the rows of its steps, and report each refusal that nothing else has reported."""

    def decorate(view: View) -> View:
        @wraps(view)
        def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            with _collecting() as rows:
                response = view(request, *args, **kwargs)
                if not any(row.is_refused for row in rows):
                    _report_answer(step, request, response)
            return response

        return serve

    return decorate


@contextmanager
def _collecting() -> Iterator[list[SignIn]]:
    rows: list[SignIn] = []
    token = _pending.set(rows)
    try:
        yield rows
    finally:
        _pending.reset(token)
        _write(rows)


def _report_answer(step: Step, request: HttpRequest, response: HttpResponseBase) -> None:
    """Report a response that is an error, by what it tells the client, or that gives it a code."""
    error = find_error(response)
    if error is None and not _gives_code(response):
        return
    name, description = error or ("", "")
    report(
        step,
        request,
        client=client_id_of(request),
        user=request.user if is_signed_in(request) else None,
        reason=f"{name}: {description}" if description else name,
    )


def _gives_code(response: HttpResponseBase) -> bool:
    """Return whether a response leads back to the client with a code: the person allowed it."""
    return "code" in parse_qs(urlsplit(response.get("Location", "")).query)


def find_error(response: HttpResponseBase) -> tuple[str, str] | None:
    """Return the error and the description of a response, or of its redirect; None: it is no refusal."""
    if response.status_code in (301, 302, 303):
        query = parse_qs(urlsplit(response.get("Location", "")).query)
        names = (query.get(name, [""])[0] for name in ("error", "error_description"))
        error, description = names
        return (error, description) if error else None
    if response.status_code < 400:
        return None
    data: Any = None
    if isinstance(response, HttpResponse) and "json" in response.get("Content-Type", ""):
        with suppress(ValueError):
            data = decode(response.content)
    given = data if isinstance(data, dict) else {}
    error = clean_if_text(given.get("error"), 60) or f"status {response.status_code}"
    return error, clean_if_text(given.get("error_description"), 300)


def old_sign_ins() -> QuerySet[SignIn]:
    """Return the rows that are past their time."""
    return SignIn.objects.filter(at__lt=timezone.now() - timedelta(days=KEPT_DAYS))


def forget_shares() -> None:
    """Forget how many steps were reported in this minute, as between two tests."""
    _shares.close()


def _to_row(
    step: Step, request: Any, client: Any, user: Any, field: str, reason: str, remedy: str
) -> SignIn:
    address = _address_of(request)
    user_id = getattr(user, "pk", None)
    is_text = client is None or isinstance(client, str)
    client_id = client if is_text else getattr(client, "client_id", "")
    principal = None if user_id is None else str(user_id)
    return SignIn(
        at=timezone.now(),
        step=step,
        is_refused=bool(reason),
        client_id=clean_if_text(client_id, 255),
        client_name="" if is_text else clean_if_text(getattr(client, "name", ""), 100),
        address=clean(address, 64),
        user_id=user_id,
        caller=digest_of_quota(quota_key_of(principal, address)),
        field=clean(field, 60),
        reason=clean(reason, 500),
        remedy=clean(remedy, 500),
    )


def _address_of(request: Any) -> str:
    # oauthlib's request has Django's `META` as its headers.
    meta = getattr(request, "META", None) or getattr(request, "headers", None) or {}
    return str(meta.get("REMOTE_ADDR") or "")


def client_id_of(request: HttpRequest) -> str | None:
    """Return the client that a request names, if it can be read."""
    # Another body may not have been read, because it is refused for its type or size.
    with suppress(Exception):
        given = request.POST if request.content_type == FORM else request.GET
        return given.get("client_id") or request.GET.get("client_id")
    return None


def is_signed_in(request: HttpRequest) -> bool:
    """Return whether a request is a user's."""
    return bool(getattr(getattr(request, "user", None), "is_authenticated", False))


def _write(rows: list[SignIn]) -> None:
    if not rows:
        return
    try:
        # A failure must not end a transaction of the site.
        with transaction.atomic(using=router.db_for_write(SignIn)):
            SignIn.objects.bulk_create(rows)
            for caller in {row.caller for row in rows}:
                _trim(SignIn.objects.filter(caller=caller), EACH_KEPT)
            if _shares.get().is_trim_due():
                delete_some(old_sign_ins())
                anonymous = SignIn.objects.filter(caller__startswith=ANONYMOUS_PREFIX)
                _trim(anonymous, ALL_KEPT // 2)
                _trim(SignIn.objects.all(), ALL_KEPT)
    except Exception as error:  # noqa: BLE001 - whatever the database has, the request goes on
        _trouble.warn("Sign-ins could not be stored: %r", error)


def _trim(rows: QuerySet[SignIn], kept: int) -> None:
    newest = rows.order_by("-pk").values_list("pk", flat=True)
    last = newest[kept : kept + 1].first()
    if last is not None:
        rows.filter(pk__lte=last).delete()
