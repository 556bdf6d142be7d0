"""Errors: the calls that failed in the same way, and how many did when.

`django_mcp.calls.errors` writes both tables, with the calls.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.calls import CallRecord
from django_mcp.models.fields import KeyField
from django_mcp.models.primary import Table
from django_mcp.protocol.sanitize import clean


class ErrorGroup(Table):
    """The calls of one entry that failed with the same exception, raised in the same function of the site.

    Its key is a digest of these, and a failed call has it as its `fingerprint`. Names that clients invented
    are one entry. How much is stored of the exception depends on `DJANGO_MCP["RECORD_ERRORS"]`.
    """

    class State(models.TextChoices):
        """Whether somebody has to look at it."""

        OPEN = "open", _("open")
        AGAIN = "again", _("seen again")
        RESOLVED = "resolved", _("resolved")

    fingerprint = KeyField(_("fingerprint"), max_length=32, primary_key=True, editable=False)
    server = KeyField(_("server"), max_length=100)
    method = KeyField(_("method"), max_length=20, choices=CallRecord.Method)
    name = KeyField(_("name"), max_length=200, blank=True)
    outcome = KeyField(_("outcome"), max_length=10, choices=CallRecord.Outcome)
    kind = KeyField(
        _("kind"),
        max_length=20,
        blank=True,
        help_text=_("What failed, or the code of the error that refused the call."),
    )
    error = KeyField(_("exception"), max_length=200, blank=True)
    place = KeyField(
        _("raised in"),
        max_length=300,
        blank=True,
        help_text=_("The innermost function of the site."),
    )
    message = models.TextField(_("message"), blank=True)
    traceback = models.TextField(_("traceback"), blank=True)
    calls = models.BigIntegerField(_("calls"), default=0)
    first_seen_at = models.DateTimeField(_("first seen"))
    last_seen_at = models.DateTimeField(_("last seen"))
    resolved_at = models.DateTimeField(_("resolved at"), null=True, blank=True)

    class Meta:
        verbose_name = _("error")
        verbose_name_plural = _("errors")
        default_permissions = ("view", "delete", "resolve")
        ordering = ("-last_seen_at", "fingerprint")
        indexes = (
            models.Index(fields=["-last_seen_at", "fingerprint"], name="django_mcp_error_seen"),
        )

    def __str__(self) -> str:
        return clean(f"{self.error or self.get_outcome_display()}: {self.name or '?'}", 300)

    @property
    def state(self) -> ErrorGroup.State:
        """Whether it is resolved, and if so, whether a call has begun since that failed so again."""
        if self.resolved_at is None:
            return self.State.OPEN
        is_again = self.last_seen_at > self.resolved_at
        return self.State.AGAIN if is_again else self.State.RESOLVED


class ErrorTally(Table):
    """The number of calls of an error in a span of time, as `CallTally` has it of all calls."""

    fingerprint = KeyField(max_length=32)
    width = models.SmallIntegerField()
    minute = models.IntegerField()
    calls = models.BigIntegerField()

    class Meta:
        verbose_name = _("tally of errors")
        verbose_name_plural = _("tallies of errors")
        default_permissions = ("view", "delete")
        constraints = (
            models.UniqueConstraint(
                fields=["fingerprint", "width", "minute"], name="django_mcp_error_tally"
            ),
        )

    def __str__(self) -> str:
        return f"{self.fingerprint}: {self.calls}"
