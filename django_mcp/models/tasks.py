"""Tasks: calls that outlive their request, with their results."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.sessions import JSONTextField, user_key


class Task(models.Model):
    """A call that continues after its request.

    Its primary key is all that protects the tasks of anonymous clients.
    """

    class Status(models.TextChoices):
        """The status that clients see."""

        WORKING = "working", _("working")
        INPUT_REQUIRED = "input_required", _("waits for input")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    id = models.CharField(_("id"), max_length=64, primary_key=True, editable=False)
    server = models.CharField(_("server"), max_length=100)
    tool = models.CharField(_("tool"), max_length=128)
    principal_key = models.CharField(_("principal"), max_length=128, blank=True)
    user = user_key()
    quota_key = models.CharField(_("quota"), max_length=64, blank=True, editable=False)
    session = models.CharField(_("session"), max_length=64, blank=True)
    revision = models.CharField(_("revision"), max_length=32)
    call = JSONTextField(_("call"))
    status = models.CharField(_("status"), max_length=16, choices=Status)
    status_message = models.CharField(_("status message"), max_length=500, blank=True)
    rounds = JSONTextField(_("rounds"))
    result = models.BinaryField(_("result"), null=True, blank=True)
    error = JSONTextField(_("error"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"))
    updated_at = models.DateTimeField(_("updated at"))
    expires_at = models.DateTimeField(_("expires at"), db_index=True)
    ttl_ms = models.BigIntegerField(_("lifetime (ms)"))
    poll_ms = models.IntegerField(_("poll interval (ms)"))
    run = models.CharField(_("run"), max_length=64, blank=True)
    leased_until = models.DateTimeField(_("leased until"), null=True, blank=True)
    version = models.IntegerField(_("version"), default=0)
    size = models.PositiveIntegerField(_("size"), default=0, help_text=_("In bytes."))

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        default_permissions = ("view", "change", "delete")
        ordering = ("created_at", "id")
        indexes = [
            models.Index("server", "principal_key", "created_at", name="django_mcp_task_owner"),
            models.Index("status", "session", name="django_mcp_task_status"),
            models.Index("quota_key", "updated_at", name="django_mcp_task_quota"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} ({self.get_status_display()})"
