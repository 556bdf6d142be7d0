"""The list of tasks, which can be cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, ngettext_lazy

from django_mcp.admin.base import note_actions, without_transaction
from django_mcp.admin.figures import Figure, Part, Trouble, show_number
from django_mcp.admin.lists import BY_USERNAME, ReadOnlyList, RevisionFilter, ServerFilter
from django_mcp.admin.permissions import may_any, only_visible
from django_mcp.admin.running_rows import MAX_SHOWN, Reported, RunningRow, RunningTable
from django_mcp.admin.texts import escape_invisible, show_text
from django_mcp.extensions.tasks.core.shapes import FINAL
from django_mcp.extensions.tasks.core.start import SWEPT_AT_ONCE, sweep_tasks
from django_mcp.extensions.tasks.core.transitions import advance
from django_mcp.extensions.tasks.site.health import ended_with_worker, without_worker
from django_mcp.extensions.tasks.site.models import Task
from django_mcp.known_servers import find_server

CANCELLED_AT_ONCE = 100


class TaskAdmin(ReadOnlyList):
    """Tasks, without their arguments and results, which are private to client and site."""

    list_display = ("created_at", "tool", "state", "server", "user", "revision", "updated_at")
    list_filter = ("status", "created_at", ServerFilter, RevisionFilter)
    search_fields = ("tool", "principal_key", BY_USERNAME)
    search_help_text = _("A part of the name of a tool, a user or a principal.")
    date_hierarchy = "created_at"
    found_by = ("session",)
    ordering = ("-created_at", "-id")
    actions = ("cancel",)
    verbs: ClassVar[dict[str, Any]] = {"cancel": _("Cancel")}
    fields = (
        "tool",
        "server",
        "shown_user",
        "revision",
        "state",
        "shown_message",
        "created_at",
        "updated_at",
        "expires_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        """Return the tasks, without large columns that are not shown."""
        return super().get_queryset(request).defer("secret", "call", "rounds", "result", "error")

    @without_transaction
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show the list, once the tasks whose worker has gone have ended, or are left for another."""
        lost = Task.objects.order_by().filter(without_worker())
        for name in set(lost.values_list("server", flat=True)[:SWEPT_AT_ONCE]):
            server = find_server(name)
            if server is not None:
                async_to_sync(sweep_tasks)(server.engine, may_begin=False)
        return super().changelist_view(request, extra_context)

    def overview(self, request: HttpRequest) -> Part | None:
        """Return the tasks that work or wait, and those whose worker has gone, now or in the last hour."""
        if not self.has_view_permission(request):
            return None
        now, url = timezone.now(), self.url_of("task_changelist")
        visible = self.get_queryset(request).order_by()
        tasks = visible.exclude(status__in=FINAL).filter(expires_at__gt=now)
        counts = dict(tasks.values_list("status").annotate(count=Count("pk")))
        lost = visible.filter(without_worker()).count()
        ended = visible.filter(ended_with_worker(now - timedelta(hours=1))).count()
        waiting = counts.get(Task.Status.INPUT_REQUIRED, 0)
        figure = Figure(
            title=_("Tasks"),
            value=show_number(counts.get(Task.Status.WORKING, 0)),
            url=f"{url}?status__exact={Task.Status.WORKING}",
            note=_t("%(count)s wait for input") % {"count": show_number(waiting)}
            if waiting
            else "",
        )
        text = ngettext(
            "The worker of %(count)s task has gone.",
            "The workers of %(count)s tasks have gone.",
            lost,
        )
        ended_text = ngettext(
            "%(count)s task failed in the last hour, since its worker stopped.",
            "%(count)s tasks failed in the last hour, since their workers stopped.",
            ended,
        )
        failed_url = f"{url}?status__exact={Task.Status.FAILED}"
        troubles = [
            Trouble(text=text % {"count": show_number(count)}, url=url, is_severe=is_severe)
            for count, text, url, is_severe in (
                (lost, text, url, True),
                (ended, ended_text, failed_url, False),
            )
            if count
        ]
        return Part(figures=(figure,), troubles=troubles, is_used=bool(counts) or None)

    def tell_running(
        self, request: HttpRequest, reported: Sequence[Reported]
    ) -> RunningTable | None:
        """Return the tasks that work or wait for input, the oldest first, with the workers that run them."""
        if not self.has_view_permission(request):
            return None
        now = timezone.now()
        tasks = self.get_queryset(request).exclude(status__in=FINAL).filter(expires_at__gt=now)
        shown = tasks.select_related("user").order_by("created_at", "id")[:MAX_SHOWN]
        of_task = {call["task"]: (worker, call) for worker, call in reported if call["task"]}
        may_cancel = self.has_cancel_permission(request)
        rows = []
        for task in shown:
            worker, call = of_task.get(task.pk, (None, None))
            entry = self.link_entry(request, task.server, "tools/call", task.tool)
            chosen = {"action": "cancel", "index": "0", "_selected_action": task.pk}
            row = RunningRow(
                name=show_text(task.tool, 200),
                url=entry[0][1] if entry else "",
                server=show_text(task.server),
                client=show_text(call["client"] or "?") if call else "",
                user=show_text(
                    task.user.get_username() if task.user else task.principal_key or "-"
                ),
                worker=show_text(worker) if worker else "",
                seconds=max(0, int((now - task.created_at).total_seconds())),
                state=self.state(task),
                note=show_text(task.status_message, 200),
                has_thread=call["has_thread"] if call else None,
                cancel=(self.url_of("task_changelist"), chosen) if may_cancel else None,
            )
            rows.append(row)
        return RunningTable(title=_("Tasks"), rows=rows, count=tasks.count())

    def links(self, request: HttpRequest, row: Any) -> list[tuple[Any, str]]:
        named = {"server": row.server, "name": row.tool}
        return [
            *self.link_entry(request, row.server, "tools/call", row.tool),
            *(self.link(request, _("Session"), "session", row.session) if row.session else []),
            *self.link(request, _("Calls"), "callrecord", **named),
        ]

    def is_open(self, row: Any) -> bool:
        return row.status not in FINAL

    @admin.display(description=_("status"), ordering="status")
    def state(self, task: Task) -> str:
        """Return the status, or that the worker of the task has gone."""
        lease, is_working = task.leased_until, task.status == Task.Status.WORKING
        if is_working and lease is not None and lease < timezone.now():
            return str(_("lost: its worker has gone"))
        return task.get_status_display()

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return may_any(request.user, "change", Task)

    @admin.display(description=_("status message"))
    def shown_message(self, task: Task) -> str:
        return escape_invisible(task.status_message, 500)

    @admin.action(description=_("Cancel the selected tasks"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Task]) -> HttpResponse | None:
        """Cancel unfinished tasks; the workers that run them stop."""
        unfinished = queryset.exclude(status__in=FINAL)
        return self.act_in_steps(
            request,
            only_visible(request.user, unfinished, "change"),
            _cancel,
            ngettext_lazy("%d task was cancelled.", "%d tasks were cancelled."),
            at_once=CANCELLED_AT_ONCE,
        )


def _cancel(request: HttpRequest, tasks: list[Task]) -> int:
    count = 0
    keys = [task.pk for task in tasks]
    ids = dict(Task.objects.filter(pk__in=keys).values_list("pk", "secret"))
    for task in tasks:
        server = find_server(task.server)
        ended = server and async_to_sync(advance)(
            server.engine, ids.get(task.pk, ""), lambda each, now_s: each.cancel(now_s)
        )
        if ended:
            count += 1
            note_actions(request, Task, (task.tool, _t("Cancelled."), task.pk))
    return count


PAGES = ((Task, TaskAdmin),)
