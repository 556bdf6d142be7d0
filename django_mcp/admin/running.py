"""The calls and tasks that run now, in all workers, and how an operator cancels one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from django_mcp.admin.base import note_actions, require_permissions
from django_mcp.admin.bounded import BoundedList
from django_mcp.admin.running_rows import MAX_SHOWN, Reported, RunningRow, RunningTable
from django_mcp.admin.texts import show_text
from django_mcp.models import CallRecord, Worker
from django_mcp.push.call_reports import MAX_LONG

if TYPE_CHECKING:
    from django_mcp.admin.base import Page

TRIES = 5
"""How often an operator's wish is written, should others be written at the same time."""

MAY_CANCEL = "django_mcp.cancel_callrecord"

STATES = {
    "queued": _("waits for a thread"),
    "running": _("running"),
    "waiting": _("waits for an answer"),
    "left": _("has ended, but its handler still runs"),
}


def find_reported() -> tuple[list[Reported], int]:
    """Return the calls and the runs of tasks that live workers report, the longest first, and the number of calls."""
    reported: list[Reported] = []
    count = 0
    for worker in Worker.objects.filter(lease_until__gt=timezone.now()):
        state = worker.in_flight or {}
        reported += [(worker, call) for call in state.get("long", ())]
        count += state.get("long_count", 0)
    return sorted(reported, key=lambda each: (each[1]["since"], each[1]["id"])), count


def find_names(keys: set[str]) -> dict[str, str]:
    """Return the names of users by their primary keys as texts."""
    users = get_user_model()._default_manager.in_bulk(keys - {""})
    return {str(pk): user.get_username() for pk, user in users.items()}


def running_view(page: Page, request: HttpRequest) -> HttpResponse:
    """Show what runs now."""
    require_permissions(request, "view_callrecord")
    reported, count = find_reported()
    tables = [_tell_calls(page, request, reported, count)]
    for other in page.admin_site._registry.values():
        table = other.tell_running(request, reported) if isinstance(other, BoundedList) else None
        if table is not None:
            tables.append(table)
    return page.show(
        request, "running.html", _("Running"), tables=tables, now=timezone.now(), longest=MAX_SHOWN
    )


def _tell_calls(
    page: Page, request: HttpRequest, reported: Sequence[Reported], count: int
) -> RunningTable:
    calls = [(worker, call) for worker, call in reported if not call["task"]]
    shown = calls[:MAX_SHOWN]
    names = find_names({call["user"] for _worker, call in shown})
    may_cancel = request.user.has_perm(MAY_CANCEL)
    now_s = timezone.now().timestamp()
    rows = []
    for worker, call in shown:
        entry = page.link_entry(request, call["server"], call["method"], call["name"])
        row = RunningRow(
            name=show_text(call["name"] or call["method"], 200),
            url=entry[0][1] if entry else "",
            server=show_text(call["server"]),
            client=show_text(call["client"] or "?"),
            user=show_text(names.get(call["user"]) or call["principal"] or "-"),
            worker=show_text(worker),
            seconds=max(0, int(now_s - call["since"])),
            state=_t("is being cancelled")
            if call["id"] in (worker.cancelled or ())
            else STATES[call["state"]],
            has_thread=call["has_thread"],
            cancel=(page.url_of("running_cancel"), {"id": call["id"]})
            if may_cancel and call["state"] != "left"
            else None,
        )
        rows.append(row)
    return RunningTable(title=_("Calls"), rows=rows, count=count)


def cancel_view(page: Page, request: HttpRequest) -> HttpResponse:
    """Ask whether to cancel a call, and have its worker cancel it."""
    require_permissions(request, "view_callrecord")
    if not request.user.has_perm(MAY_CANCEL):
        raise PermissionDenied
    key, url = request.POST.get("id", "")[:64], page.url_of("running")
    reported, _count = find_reported()
    found = [(worker, call) for worker, call in reported if call["id"] == key and not call["task"]]
    if not found or found[0][1]["state"] == "left":
        page.message_user(request, _("It no longer exists."), messages.WARNING)
        return HttpResponseRedirect(url)
    worker = found[0][0]
    table = _tell_calls(page, request, found, 1)
    if "confirmed" not in request.POST:
        return page.show(
            request,
            "running_cancel.html",
            _("Cancel the call"),
            row=table.rows[0],
            key=key,
            back=url,
            parents=[(_("Running"), url)],
        )
    if _ask_worker(worker, key):
        row = table.rows[0]
        text = _t("Cancelled. User: %(user)s; client: %(client)s.") % {
            "user": row.user,
            "client": row.client,
        }
        note_actions(request, CallRecord, (row.name, text, None))
        page.message_user(request, _("The call is being cancelled."))
    else:
        page.message_user(request, _("It no longer exists."), messages.WARNING)
    return HttpResponseRedirect(url)


def _ask_worker(worker: Worker, key: str) -> bool:
    """Have a worker cancel one of its calls with its next report; return whether it was asked."""
    for _try in range(TRIES):
        row = Worker.objects.filter(pk=worker.pk).first()
        if row is None:
            return False
        running = {call["id"] for call in (row.in_flight or {}).get("long", ())}
        asked = sorted({*(row.cancelled or ()), key} & running)
        if key not in asked:
            return False
        # Unless the worker or another operator has changed it meanwhile.
        same = Worker.objects.filter(pk=worker.pk, cancelled=row.cancelled)
        if same.update(cancelled=asked[:MAX_LONG]):
            return True
    return False
