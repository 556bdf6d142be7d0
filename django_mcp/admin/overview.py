"""The start page: what the pages of an admin site say of now and of the last hour.

Each page says it for the rows that a user may see; see `BoundedList.overview`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mcp.admin.base import Page
from django_mcp.admin.bounded import BoundedList
from django_mcp.admin.figures import (
    Figure,
    Part,
    Picture,
    Trouble,
    draw_line,
    show_number,
)
from django_mcp.admin.permissions import may, only_visible
from django_mcp.admin.reports import HEIGHT, SPANS, find_summary, summarise
from django_mcp.admin.texts import show_text
from django_mcp.conf import settings
from django_mcp.health.signs import (
    WorkerState,
    find_expiring,
    find_layer_fault,
    find_workers,
)
from django_mcp.models import APIKey, CallRecord, Session, Stream
from django_mcp.push.layers import describe_layer
from django_mcp.servers import all_servers

EXPIRES_WITHIN = timedelta(days=7)
"""How long before the end of an API key the start page names it."""

NAMED = 5
"""Workers or keys that are named; of more only the number is given."""


def find_overview(page: Page, request: HttpRequest) -> dict[str, Any]:
    """Return the context of the start page for a user of the admin site of a page."""
    parts = [
        part
        for other in page.admin_site._registry.values()
        if isinstance(other, BoundedList)
        for part in [other.overview(request)]
        if part is not None
    ]
    told = [part.is_used for part in parts if part.is_used is not None]
    sees_calls = request.user.has_perm("django_mcp.view_callrecord")
    return {
        "figures": [figure for part in parts for figure in part.figures],
        "troubles": sorted(
            (trouble for part in parts for trouble in part.troubles),
            key=lambda trouble: not trouble.is_severe,
        ),
        "picture": next((part.picture for part in parts if part.picture is not None), None),
        "is_new": bool(told) and not any(told),
        "steps": list(_find_steps(page, request)),
        "has_lists": bool(parts),
        "is_recording": bool(settings.RECORD_CALLS) or not sees_calls,
        "now": timezone.now(),
    }


def _find_steps(page: Page, request: HttpRequest) -> Iterator[tuple[str, str]]:
    """Yield what is left to do on a new site, with the page that helps."""
    entries = sum(
        len(entries) for server in all_servers() for entries in server.registry.registered.values()
    )
    catalogue = page.link(request, "", "disabledentry")
    if entries:
        text = ngettext(
            "%(count)s entry is registered: see it in the catalogue.",
            "%(count)s entries are registered: see them in the catalogue.",
            entries,
        ) % {"count": show_number(entries)}
    else:
        text = _("Register a tool in the module mcp.py of an app.")
    yield text, catalogue[0][1] if catalogue else ""
    yield _("Connect a client."), page.find_url("connect") or ""


def tell_calls(page: Page, request: HttpRequest) -> Part:
    """Return the calls of the last hour, and those that run or wait."""
    summary, troubles = _find_hour()
    total = summary["total"]
    figures = []
    if settings.RECORD_CALLS or total["calls"]:
        share = total["errors"] / total["calls"] if total["calls"] else 0.0
        p95 = total["p95"]
        errors = page.link(request, "", "errorgroup", span="hour", state="all")
        figures = [
            Figure(
                title=_("Calls in the last hour"),
                value=show_number(total["calls"]),
                url=page.url_of("charts"),
            ),
            Figure(
                title=_("Errors"),
                value=show_number(total["errors"]),
                url=errors[0][1] if errors else "",
                note=f"{show_number(share * 100, 1)} %" if total["errors"] else "",
            ),
            Figure(
                title=_("95th percentile"),
                value="-" if p95 is None else f"{show_number(p95, 0 if p95 >= 10 else 1)} ms",
                url=page.url_of("slow"),
            ),
        ]
    workers = find_workers()
    running, queued = workers.running, workers.queued
    figures.append(
        Figure(
            title=_("Running calls"),
            value=show_number(running),
            url=page.url_of("running"),
            note=_("%(count)s wait for a thread") % {"count": show_number(queued)}
            if queued
            else "",
        )
    )
    is_used = bool(total["calls"] or running) or CallRecord.objects.exists()
    return Part(
        figures=figures,
        troubles=troubles,
        picture=_draw(summary) if total["calls"] else None,
        is_used=is_used,
    )


def _find_hour() -> tuple[dict[str, Any], Sequence[Trouble]]:
    """Return the summary of the last hour, also if the cache does not answer, which is told then."""
    try:
        return find_summary("hour"), ()
    except Exception as error:  # noqa: BLE001 - each cache has errors of its own
        text = _("The cache default does not answer: %(error)s") % {"error": type(error).__name__}
        return summarise(SPANS["hour"]), (Trouble(text=text, is_severe=True),)


def _draw(summary: dict[str, Any]) -> Picture:
    calls, errors = summary["calls"], summary["errors"]
    text = _("%(calls)s calls in the last hour, %(errors)s of them errors.")
    total = {name: show_number(summary["total"][name]) for name in ("calls", "errors")}
    return Picture(
        calls=draw_line(calls, HEIGHT, max(calls)),
        errors=draw_line(errors, HEIGHT, max(calls)),
        width=len(calls) - 1,
        height=HEIGHT,
        text=text % total,
    )


def tell_streams(page: Page, request: HttpRequest) -> Part | None:
    """Return the open streams that a user may see."""
    if not page.has_view_permission(request):
        return None
    rows = Stream.objects.filter(worker__lease_until__gt=timezone.now())
    count = only_visible(request.user, rows).count()
    figure = Figure(
        title=_("Open streams"), value=show_number(count), url=page.url_of("stream_changelist")
    )
    return Part(figures=(figure,), is_used=bool(count))


def tell_sessions(page: Page, request: HttpRequest) -> Part | None:
    """Return the sessions that a user may see, and for who may see all connections the workers."""
    if not page.has_view_permission(request):
        return None
    rows = Session.objects.filter(expires_at__gt=timezone.now())
    count = only_visible(request.user, rows).count()
    figures = [
        Figure(title=_("Sessions"), value=show_number(count), url=page.url_of("session_changelist"))
    ]
    troubles: list[Trouble] = []
    if may(request.user, "view", Session) and may(request.user, "view", Stream):
        figure, troubles = _tell_workers(page.url_of("live"))
        figures.append(figure)
        fault = find_layer_fault()
        if fault:
            text = _(
                "The channel layer %(layer)s does not answer (%(error)s): notifications between workers are late or lost."
            )
            values = {"layer": describe_layer(), "error": fault}
            troubles.append(Trouble(text=text % values, is_severe=True))
    return Part(figures=figures, troubles=troubles, is_used=bool(count))


def _tell_workers(url: str) -> tuple[Figure, list[Trouble]]:
    workers = find_workers()
    alive, lost = workers.alive, workers.lost
    busy = sum(worker.busy for worker in alive)
    threads = sum(worker.threads for worker in alive)
    troubles = [_tell_exhausted(worker, url) for worker in alive if worker.is_exhausted]
    if lost:
        text = ngettext(
            "%(count)s worker does not report any more: %(names)s. It was killed, or cannot reach the database.",
            "%(count)s workers do not report any more: %(names)s. They were killed, or cannot reach the database.",
            len(lost),
        )
        values = {"count": show_number(len(lost)), "names": _join(lost)}
        troubles.append(Trouble(text=text % values, url=url, is_severe=True))
    note = ""
    if threads:
        note = _("%(busy)s of %(all)s threads are busy") % {
            "busy": show_number(busy),
            "all": show_number(threads),
        }
    elif not alive:
        note = _("idle ones do not report")
    figure = Figure(title=_("Workers"), value=show_number(len(alive)), url=url, note=note)
    return figure, troubles


def _tell_exhausted(worker: WorkerState, url: str) -> Trouble:
    text = _(
        "All %(threads)s threads of the worker %(worker)s are busy, and %(waiting)s calls wait. Give what holds them a timeout, or raise SYNC_THREADS."
    )
    values = {
        "threads": show_number(worker.threads),
        "worker": show_text(worker.row, 120),
        "waiting": show_number(worker.queued),
    }
    return Trouble(text=text % values, url=url, is_severe=True)


def tell_keys(page: Page, request: HttpRequest) -> Part | None:
    """Return which of the API keys that a user may see are about to expire."""
    if not page.has_view_permission(request):
        return None
    rows = find_expiring(page.get_queryset(request), EXPIRES_WITHIN)
    keys: list[APIKey] = list(rows[: NAMED + 1])
    if not keys:
        return None
    names = _join(keys)
    text = _("API keys expire within a week: %(names)s") % {"names": names}
    return Part(troubles=(Trouble(text=text, url=page.url_of("apikey_changelist")),))


def _join(rows: Iterable[Any]) -> str:
    named = [show_text(row, 120) for row in rows]
    return ", ".join([*named[:NAMED], "…"] if len(named) > NAMED else named)
