"""The list of tasks: which calls go on after their request, and an end to one that should not."""

from __future__ import annotations

from typing import Any, ClassVar

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_mcp.admin.history import note_action
from django_mcp.admin.pages import Page
from django_mcp.admin.texts import inert
from django_mcp.models import Task
from django_mcp.server.tasks.keeping import advance
from django_mcp.servers import all_servers

__all__ = ["TaskAdmin"]


class TaskAdmin(Page):
    """Tasks, without their arguments and results: those are between a client and the site."""

    list_display = ("created_at", "tool", "status", "server", "user", "revision", "updated_at")
    list_filter = ("status", "created_at", "revision")
    list_select_related: ClassVar[Any] = ("user",)
    search_fields = ("tool__startswith", "principal_key__startswith")
    date_hierarchy = "created_at"
    show_full_result_count = False
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

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds any."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits any; whether they may cancel is asked for that."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """They go when they expire."""
        return False

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may cancel tasks: with the permission to change them."""
        return request.user.has_perm("django_mcp.change_task")

    @admin.display(description=_("status message"))
    def shown_message(self, task: Task) -> str:
        """Return what the tool said last, cut short."""
        return inert(task.status_message, 500)

    @admin.action(description=_("Cancel the selected tasks"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        """End tasks that have not ended; whichever worker runs one stops."""
        servers = {server.public_name: server for server in all_servers()}
        count = 0
        for task in queryset.defer("result", "call", "rounds"):
            server = servers.get(task.server)
            if server is None:
                continue
            ended = async_to_sync(advance)(server, task.pk, lambda each, now_s: each.cancel(now_s))
            if ended is not None:
                count += 1
                note_action(request, Task, task.tool, "Cancelled.")
        self.message_user(
            request, ngettext("%d task was cancelled.", "%d tasks were cancelled.", count) % count
        )
