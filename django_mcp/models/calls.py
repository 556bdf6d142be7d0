"""The record of calls, and the counts of calls.

`django_mcp.calls` inserts rows in batches, never by saving an object.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.sessions import user_key


class CallRecord(models.Model):
    """One tool call, resource read or prompt request.

    All texts from clients are cut to their column and hold no control characters.
    """

    class Outcome(models.TextChoices):
        """The outcome of a call."""

        DONE = "done", _("done")
        FAILED = "failed", _("tool error")
        REFUSED = "refused", _("refused")
        ASKED = "asked", _("asked the client")
        CANCELLED = "cancelled", _("cancelled")
        TIMEOUT = "timeout", _("timed out")
        FAULT = "fault", _("internal error")

    class Method(models.TextChoices):
        """The method of a call."""

        TOOL = "tools/call", _("tool")
        RESOURCE = "resources/read", _("resource")
        PROMPT = "prompts/get", _("prompt")

    started_at = models.DateTimeField(_("started at"))
    minute = models.IntegerField(
        _("minute"), editable=False, help_text=_("Minutes since the epoch, for the charts.")
    )
    duration_ms = models.FloatField(_("duration (ms)"))
    step = models.SmallIntegerField(
        _("step"), editable=False, help_text=_("The duration on a logarithmic scale.")
    )
    server = models.CharField(_("server"), max_length=100)
    method = models.CharField(_("method"), max_length=20, choices=Method)
    name = models.CharField(_("name"), max_length=200)
    outcome = models.CharField(_("outcome"), max_length=10, choices=Outcome)
    reference = models.CharField(_("error reference"), max_length=20, blank=True)
    user = user_key(on_delete=models.SET_NULL)
    principal = models.CharField(_("principal"), max_length=128, blank=True)
    revision = models.CharField(_("revision"), max_length=20)
    client_name = models.CharField(_("client"), max_length=100, blank=True)
    client_version = models.CharField(_("client version"), max_length=50, blank=True)
    arguments = models.TextField(_("arguments"), blank=True)
    session = models.CharField(_("session"), max_length=32, blank=True)
    error = models.CharField(
        _("exception"), max_length=100, blank=True, help_text=_("The class of the exception.")
    )

    class Meta:
        verbose_name = _("call")
        verbose_name_plural = _("calls")
        default_permissions = ("view", "delete", "export")
        indexes = (
            models.Index(fields=["-started_at", "-id"], name="django_mcp_call_time"),
            # Most calls are in none, and few have a reference.
            models.Index(
                fields=["session", "-started_at", "-id"],
                name="django_mcp_call_session",
                condition=~models.Q(session=""),
            ),
            models.Index(
                fields=["reference"],
                name="django_mcp_call_reference",
                condition=~models.Q(reference=""),
            ),
            models.Index(
                fields=["error", "-started_at", "-id"],
                name="django_mcp_call_error",
                condition=~models.Q(error=""),
            ),
            models.Index(fields=["name", "-started_at", "-id"], name="django_mcp_call_name"),
            models.Index(fields=["outcome", "-started_at", "-id"], name="django_mcp_call_outcome"),
        )

    def __str__(self) -> str:
        return f"{self.method} {self.name}"


class CallTally(models.Model):
    """The number of calls with the same name, outcome and step of duration in a span of time.

    Written in the transaction of the calls that it counts. Each call is counted in a span of each
    width in `django_mcp.calls.tallies`.

    Attributes:
        width: minutes of the span.
        minute: the first one of the span, since the epoch.
    """

    width = models.SmallIntegerField()
    minute = models.IntegerField()
    server = models.CharField(max_length=100)
    method = models.CharField(max_length=20)
    name = models.CharField(max_length=200)
    outcome = models.CharField(max_length=10)
    step = models.SmallIntegerField()
    calls = models.BigIntegerField()

    class Meta:
        verbose_name = _("tally of calls")
        verbose_name_plural = _("tallies of calls")
        default_permissions = ("view", "delete")
        constraints = (
            models.UniqueConstraint(
                fields=["width", "minute", "server", "method", "name", "outcome", "step"],
                name="django_mcp_call_tally",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.calls}"
