"""The list of tasks, which can be cancelled."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_mcp.admin.filters import RevisionFilter, ServerFilter
from django_mcp.admin.history import note_action
from django_mcp.admin.lists import BY_USERNAME, ReadOnlyList
from django_mcp.admin.permissions import has_object_backend, may
from django_mcp.admin.texts import inert
from django_mcp.models import Task
from django_mcp.server.tasks.transitions import advance
from django_mcp.servers import find_server

__all__ = ["TaskAdmin"]


class TaskAdmin(ReadOnlyList):
    """Tasks, without their arguments and results, which are private to client and site."""

    list_display = ("created_at", "tool", "status", "server", "user", "revision", "updated_at")
    list_filter = ("status", "created_at", ServerFilter, RevisionFilter)
    search_fields = ("tool__startswith", "principal_key__startswith", BY_USERNAME)
    search_help_text = _("The start of a tool, a user or a principal.")
    date_hierarchy = "created_at"
    ordering = ("-created_at", "-id")
    actions = ("cancel",)
    fields = (
        "tool",
        "server",
        "user",
        "revision",
        "status",
        "shown_message",
        "created_at",
        "updated_at",
        "expires_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        """Return the tasks, without large columns that are not shown."""
        return super().get_queryset(request).defer("call", "rounds", "result", "error")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may cancel tasks, or perhaps single ones."""
        return may(request.user, "change", Task) or has_object_backend()

    @admin.display(description=_("status message"))
    def shown_message(self, task: Task) -> str:
        """Return the tool's last message, cut short."""
        return inert(task.status_message, 500)

    @admin.action(description=_("Cancel the selected tasks"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        """Cancel unfinished tasks; the workers that run them stop."""
        count = 0
        for task in queryset:
            server = find_server(task.server)
            if server is None or not may(request.user, "change", task):
                continue
            ended = async_to_sync(advance)(server, task.pk, lambda each, now_s: each.cancel(now_s))
            if ended is not None:
                count += 1
                note_action(request, Task, task.tool, _t("Cancelled."), task.pk)
        self.message_user(
            request, ngettext("%d task was cancelled.", "%d tasks were cancelled.", count) % count
        )
