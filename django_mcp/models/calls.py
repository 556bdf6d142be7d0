"""Calls: their record and counts, and their state while the client answers.

`django_mcp.calls` inserts rows of the record in batches, never by saving an object.
"""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp.models.fields import KeyField
from django_mcp.models.primary import Table
from django_mcp.models.sessions import JSONTextField, user_key
from django_mcp.protocol.sanitize import clean


class CallRecord(Table):
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
    server = KeyField(_("server"), max_length=100)
    method = KeyField(_("method"), max_length=20, choices=Method)
    name = KeyField(_("name"), max_length=200)
    outcome = KeyField(_("outcome"), max_length=10, choices=Outcome)
    reference = KeyField(_("error reference"), max_length=20, blank=True)
    user = user_key(on_delete=models.SET_NULL)
    principal = KeyField(_("principal"), max_length=128, blank=True)
    revision = models.CharField(_("revision"), max_length=20)
    client_name = models.CharField(_("client"), max_length=100, blank=True)
    client_version = models.CharField(_("client version"), max_length=50, blank=True)
    arguments = models.TextField(_("arguments"), blank=True)
    session = KeyField(_("session"), max_length=32, blank=True)
    error = KeyField(
        _("exception"), max_length=100, blank=True, help_text=_("The class of the exception.")
    )

    coerced = models.CharField(
        _("corrected arguments"),
        max_length=200,
        blank=True,
        # Workers of the version before it insert rows without it.
        db_default="",
        help_text=_(
            "The arguments that did not fit as they were sent, and were read in the one way that does."
        ),
    )

    result_chars = models.PositiveIntegerField(
        _("characters of the result"), default=0, db_default=0, editable=False
    )

    result_bytes = models.PositiveIntegerField(
        _("result (bytes)"), default=0, db_default=0, editable=False
    )
    is_cut = models.BooleanField(
        _("result cut"),
        default=False,
        db_default=False,
        editable=False,
        help_text=_("Rows were left out, since the result was larger than MAX_RESULT_TOKENS."),
    )
    queue_ms = models.FloatField(
        _("waited for a thread (ms)"), null=True, blank=True, editable=False
    )
    handler_ms = models.FloatField(
        _("in the handler (ms)"),
        null=True,
        blank=True,
        editable=False,
        help_text=_("With the conversion of the result, without the wait for a thread."),
    )
    database_ms = models.FloatField(
        _("in the database (ms)"),
        null=True,
        blank=True,
        editable=False,
        help_text=_("Of the time in the handler. Only of the calls that RECORD_QUERIES chooses."),
    )
    queries = models.PositiveIntegerField(_("queries"), null=True, blank=True, editable=False)
    faulty = models.CharField(
        _("wrong arguments"),
        max_length=200,
        blank=True,
        db_default="",
        editable=False,
        help_text=_("The arguments that were refused, by their place in the schema."),
    )
    fingerprint = KeyField(
        _("error"),
        max_length=32,
        blank=True,
        db_default="",
        editable=False,
        help_text=_("The key of the error that it is a case of."),
    )

    varied = models.CharField(
        _("changed arguments"),
        max_length=200,
        blank=True,
        db_default="",
        editable=False,
        help_text=_(
            "The arguments that differ from those of a call of the same tool by the same caller within 60 seconds."
        ),
    )

    class Meta:
        verbose_name = _("call")
        verbose_name_plural = _("calls")
        default_permissions = ("view", "delete", "export", "cancel")
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
            models.Index(
                fields=["fingerprint", "-started_at", "-id"],
                name="django_mcp_call_fingerprint",
                condition=~models.Q(fingerprint=""),
            ),
            models.Index(fields=["name", "-started_at", "-id"], name="django_mcp_call_name"),
            models.Index(fields=["outcome", "-started_at", "-id"], name="django_mcp_call_outcome"),
        )

    def __str__(self) -> str:
        return f"{self.method} {clean(self.name, 200)}"


class CallTally(Table):
    """The number of calls with the same name and outcome in a span of time, by the step of their duration.

    Written in the transaction of the calls that it counts. Each call is counted in a span of each
    width in `django_mcp.calls.rows`.

    Attributes:
        width: minutes of the span.
        minute: the first one of the span, since the epoch.
        steps: the number of calls with each step, as JSON; NULL if all have the same one, `step`.
    """

    width = models.SmallIntegerField()
    minute = models.IntegerField()
    server = KeyField(max_length=100)
    method = KeyField(max_length=20)
    name = KeyField(max_length=200)
    outcome = KeyField(max_length=10)
    step = models.SmallIntegerField()
    calls = models.BigIntegerField()
    steps = models.TextField(null=True)  # noqa: DJ001 - some databases take no default of a text

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


class LastCall(Table):
    """The last call of a tool by a caller, for a few minutes, by which a repetition is found.

    Its digests are made with a key of the server, which is derived from `SECRET_KEY`.

    Attributes:
        digest: of the tool and the caller.
        started_s: seconds since the epoch.
        arguments: the digests of its arguments, in the order of the tool's schema.
    """

    digest = KeyField(_("digest"), max_length=32, primary_key=True)
    started_s = models.FloatField(db_index=True, editable=False)
    arguments = models.CharField(max_length=250, editable=False)

    class Meta:
        verbose_name = _("last call of a caller")
        verbose_name_plural = _("last calls of callers")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.digest[:8]


class KeptState(Table):
    """The state of a call while its client answers; the client only holds a reference to it.

    A row is found by a digest that includes the principal, so that no other principal can find it. Its
    quota key is a digest as well, by which the rows of one caller are counted.
    """

    digest = KeyField(_("digest"), max_length=64, primary_key=True)
    quota_key = KeyField(_("quota"), max_length=64, db_index=True, editable=False)
    value = models.BinaryField(_("value"))
    size = models.PositiveIntegerField(_("size"), help_text=_("In bytes."))
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("state of a call")
        verbose_name_plural = _("states of calls")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.digest[:8]


class UsedState(Table):
    """What counts until it expires: a state that was used and is rejected if it is sent again, or a guess of a password."""

    digest = KeyField(_("digest"), max_length=64, primary_key=True)
    quota_key = KeyField(_("quota"), max_length=64, db_index=True, editable=False)
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("used state")
        verbose_name_plural = _("used states")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.digest[:8]


class PageVisit(Table):
    """A page that one user was asked to visit, once, for one call.

    Its result goes only to the handler that asked, and never passes through a client.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = user_key(null=False, blank=False)
    principal_key = KeyField(_("principal"), max_length=128, blank=True)
    server = KeyField(_("server"), max_length=100)
    entry = KeyField(_("entry"), max_length=200, blank=True)
    path = models.TextField(_("path"))
    session_key = KeyField(_("session"), max_length=64, blank=True)
    state = JSONTextField(_("state"), null=True, blank=True)
    result = JSONTextField(_("result"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    completed_at = models.DateTimeField(_("completed"), null=True, blank=True)
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("visit to a page")
        verbose_name_plural = _("visits to pages")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.path
