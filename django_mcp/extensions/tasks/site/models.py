"""The table of tasks."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.fields import KeyField
from django_mcp.models.primary import Table
from django_mcp.models.sessions import JSONTextField, user_key
from django_mcp.protocol.sanitize import clean


class Task(Table):
    """A call that continues after its request.

    Its primary key is the digest of the id that clients know. That id is all that protects the tasks of anonymous
    clients, so the admin does not show it.
    """

    class Status(models.TextChoices):
        """The status that clients see."""

        WORKING = "working", _("working")
        INPUT_REQUIRED = "input_required", _("waits for input")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    id = KeyField(_("id"), max_length=64, primary_key=True, editable=False)
    secret = KeyField(_("id for clients"), max_length=64, db_default="", editable=False)
    server = KeyField(_("server"), max_length=100)
    tool = KeyField(_("tool"), max_length=128)
    principal_key = KeyField(_("principal"), max_length=128, blank=True)
    user = user_key()
    quota_key = KeyField(_("quota"), max_length=64, blank=True, editable=False)
    session = KeyField(_("session"), max_length=64, blank=True)
    revision = models.CharField(_("revision"), max_length=32)
    call = JSONTextField(_("call"))
    status = KeyField(_("status"), max_length=16, choices=Status)
    status_message = models.CharField(_("status message"), max_length=500, blank=True)
    rounds = JSONTextField(_("rounds"))
    result = models.BinaryField(_("result"), null=True, blank=True)
    error = JSONTextField(_("error"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"))
    updated_at = models.DateTimeField(_("updated at"))
    expires_at = models.DateTimeField(_("expires at"), db_index=True)
    ttl_ms = models.BigIntegerField(_("lifetime (ms)"))
    poll_ms = models.IntegerField(_("poll interval (ms)"))
    run = KeyField(_("run"), max_length=64, blank=True)
    leased_until = models.DateTimeField(_("leased until"), null=True, blank=True)
    version = models.IntegerField(_("version"), default=0)
    size = models.PositiveIntegerField(_("size"), default=0, help_text=_("In bytes."))

    class Meta:
        app_label = "django_mcp"
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        default_permissions = ("view", "change", "delete")
        ordering = ("created_at", "id")
        indexes = [
            models.Index(
                fields=["server", "principal_key", "created_at"], name="django_mcp_task_owner"
            ),
            models.Index(fields=["status", "session"], name="django_mcp_task_status"),
            models.Index(fields=["quota_key", "updated_at"], name="django_mcp_task_quota"),
        ]

    def __str__(self) -> str:
        return f"{clean(self.tool, 128)} ({self.get_status_display()})"
