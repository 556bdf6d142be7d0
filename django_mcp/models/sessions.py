"""Sessions and their data, the processes that serve, their open streams, and messages between them.

No secret is stored, only the digest of a session's id. All texts from clients are cut to their
column.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp.models.fields import KeyField
from django_mcp.models.primary import Table
from django_mcp.protocol.json import decode, encode
from django_mcp.protocol.sanitize import clean

if TYPE_CHECKING:
    # It accepts and returns any value, which a TextField does not.
    _TextField = models.JSONField[Any, Any]
else:
    _TextField = models.TextField


class JSONTextField(_TextField):
    """Any JSON value, as text: PostgreSQL's own type rejects some that clients may send."""

    def from_db_value(self, value: str | None, *_args: Any) -> Any:
        return None if value is None else decode(value)

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else encode(value).decode()

    def to_python(self, value: Any) -> Any:
        """Return the value of the JSON in a fixture: forms only show it."""
        return decode(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        return str(self.get_prep_value(self.value_from_object(obj)))


def user_key(**options: Any) -> models.ForeignKey[Any, Any]:
    """Return a key of the site's user, without a constraint and by default optional.

    Rows are written later in bulk, and the users may be in another database.
    """
    all_options = {"null": True, "blank": True, "on_delete": models.CASCADE, **options}
    return models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        db_constraint=False,
        related_name="+",
        **all_options,
    )


def _session_key(related_name: str, **options: Any) -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(
        "Session",
        verbose_name=_("session"),
        on_delete=models.CASCADE,
        related_name=related_name,
        **options,
    )


class Session(Table):
    """A client's connection over HTTP that started with a handshake.

    Its primary key, in hex, is `Session.key` of the server. It grants no access: the client has
    another, secret id, of which `digest` is the SHA-256.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    digest = KeyField(_("digest"), max_length=64, unique=True, editable=False)
    server = KeyField(_("server"), max_length=100)
    principal_key = KeyField(_("principal"), max_length=128, blank=True)
    user = user_key()
    quota_key = KeyField(_("quota"), max_length=64, blank=True, editable=False)
    revision = models.CharField(_("revision"), max_length=20)
    client_name = models.CharField(_("client"), max_length=100, blank=True)
    client_version = models.CharField(_("client version"), max_length=50, blank=True)
    client_info = JSONTextField(_("client info"), null=True, blank=True)
    capabilities = JSONTextField(_("capabilities"), default=dict, blank=True)
    is_initialized = models.BooleanField(_("initialized"), default=False)
    log_level = models.CharField(_("log level"), max_length=20, blank=True)
    transport = KeyField(_("transport"), max_length=10, default="http")
    created_at = models.DateTimeField(_("opened"), default=timezone.now)
    last_seen_at = models.DateTimeField(
        _("last seen"), default=timezone.now, help_text=_("Accurate to a few seconds.")
    )
    expires_at = models.DateTimeField(
        _("expires"), help_text=_("The latest end; an idle session ends earlier.")
    )
    subscriptions_version = models.PositiveBigIntegerField(
        default=0,
        # Workers that do not know the column yet make sessions while an upgrade is under way.
        db_default=0,
        editable=False,
    )
    """How often its subscriptions have changed."""

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")
        default_permissions = ("view", "end")
        ordering = ("-last_seen_at", "-id")
        indexes = (
            models.Index(fields=["last_seen_at", "id"], name="django_mcp_session_seen"),
            # In the order of eviction, so that a handshake need not sort.
            models.Index(
                fields=["server", "principal_key", "last_seen_at", "id"],
                name="django_mcp_session_owner",
            ),
            models.Index(
                fields=["server", "quota_key", "last_seen_at", "id"],
                name="django_mcp_session_quota",
            ),
            models.Index(fields=["expires_at"], name="django_mcp_session_expiry"),
        )

    def __str__(self) -> str:
        return f"{clean(self.client_name, 100) or '?'} {self.pk.hex[:8]}"


class SessionItem(Table):
    """One key of `ctx.session`, in a row of its own, so that concurrent writers do not conflict."""

    session = _session_key("items")
    key = KeyField(_("key"), max_length=200)
    value = JSONTextField(_("value"))
    size = models.PositiveIntegerField(_("size"), default=0, help_text=_("In bytes."))

    class Meta:
        verbose_name = _("session item")
        verbose_name_plural = _("session items")
        default_permissions = ("view", "delete")
        constraints = (
            models.UniqueConstraint(fields=["session", "key"], name="django_mcp_item_key"),
        )

    def __str__(self) -> str:
        return self.key


class Subscription(Table):
    """A resource that a session is subscribed to."""

    session = _session_key("subscriptions")
    uri = models.TextField(_("URI"))
    uri_digest = KeyField(_("digest"), max_length=64, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now)

    class Meta:
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")
        default_permissions = ("view", "delete")
        constraints = (
            models.UniqueConstraint(
                fields=["session", "uri_digest"], name="django_mcp_subscription_uri"
            ),
        )

    def __str__(self) -> str:
        # A title in pages that others look at; a client's URI may be a megabyte long.
        return clean(self.uri, 200)


class Worker(Table):
    """A process that serves, as long as it renews its lease."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.CharField(_("host"), max_length=100)
    pid = models.PositiveIntegerField(_("process id"))
    started_at = models.DateTimeField(_("started at"), default=timezone.now)
    lease_until = models.DateTimeField(
        _("lease until"),
        db_index=True,
        help_text=_("A running process renews it before it ends."),
    )
    in_flight = JSONTextField(
        _("in flight"), null=True, blank=True, help_text=_("Requests that it answered recently.")
    )

    cancelled = JSONTextField(
        _("calls to cancel"),
        null=True,
        blank=True,
        editable=False,
        help_text=_("Those that operators cancel; the process reads them with its next report."),
    )

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class Stream(Table):
    """A stream that is open in a worker, or a resumable call that runs there.

    Deleted at its end; those of a worker that was killed are deleted with that worker's row.
    """

    class Kind(models.TextChoices):
        """The method that opened a stream."""

        CALL = "call", _("call")
        STANDALONE = "get", _("standalone")
        LISTEN = "listen", _("listening")
        LEGACY = "sse", _("HTTP+SSE")
        STDIO = "stdio", _("stdio")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = KeyField(_("kind"), max_length=10, choices=Kind)
    worker = models.ForeignKey(
        Worker, verbose_name=_("worker"), on_delete=models.CASCADE, related_name="streams"
    )
    # No constraint: rows are inserted in bulk, and an ended session must not fail the batch.
    session = _session_key("streams", null=True, blank=True, db_constraint=False)
    server = KeyField(_("server"), max_length=100)
    principal_key = KeyField(_("principal"), max_length=128, blank=True)
    user = user_key()
    revision = models.CharField(_("revision"), max_length=20, blank=True)
    client_name = models.CharField(_("client"), max_length=100, blank=True)
    client_version = models.CharField(_("client version"), max_length=50, blank=True)
    opened_at = models.DateTimeField(_("opened"), default=timezone.now)
    lists = models.CharField(
        _("lists"), max_length=100, blank=True, help_text=_("Lists whose changes it receives.")
    )
    uri_count = models.PositiveIntegerField(
        _("resources"), default=0, help_text=_("The number of resources that it is subscribed to.")
    )
    uri_digests = models.TextField(
        _("digests of resources"),
        blank=True,
        editable=False,
        help_text=_("The resources that it is subscribed to, where no session keeps them."),
    )
    queued_events = models.PositiveIntegerField(
        _("queued events"), default=0, help_text=_("Messages that recently waited to be sent.")
    )

    class Meta:
        verbose_name = _("stream")
        verbose_name_plural = _("streams")
        default_permissions = ("view", "end")
        ordering = ("-opened_at", "-id")
        indexes = (models.Index(fields=["-opened_at", "-id"], name="django_mcp_stream_opened"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.pk.hex[:8]}"


class StreamEvent(Table):
    """A recorded event of a call's stream. It may outlive the stream, the worker and the call."""

    stream_id = models.UUIDField(_("stream"))
    session = _session_key("events", db_constraint=False)
    number = models.PositiveIntegerField(_("number"))
    message = models.TextField(_("message"))
    is_last = models.BooleanField(_("last"), default=False)
    size = models.PositiveIntegerField(_("size"), help_text=_("In bytes."))
    created_at = models.DateTimeField(_("created"), default=timezone.now, db_index=True)

    class Meta:
        verbose_name = _("event of a stream")
        verbose_name_plural = _("events of streams")
        default_permissions = ("view", "delete")
        constraints = (
            models.UniqueConstraint(fields=["stream_id", "number"], name="django_mcp_event_number"),
        )

    def __str__(self) -> str:
        return f"{self.stream_id.hex[:8]}-{self.number}"


class PendingAnswer(Table):
    """A request sent to a client on a stream, and the response once it has arrived."""

    session = _session_key("questions")
    ask_id = KeyField(_("id"), max_length=64)
    answer = JSONTextField(_("answer"), null=True, blank=True)
    answered_at = models.DateTimeField(_("answered"), null=True, blank=True)
    size = models.PositiveIntegerField(
        _("size"), default=0, help_text=_("Of the answer, in bytes.")
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    expires_at = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("question to a client")
        verbose_name_plural = _("questions to clients")
        default_permissions = ("view", "delete")
        constraints = (
            models.UniqueConstraint(fields=["session", "ask_id"], name="django_mcp_question_id"),
        )

    def __str__(self) -> str:
        return self.ask_id


class BusMessage(Table):
    """A message from one process to all others; deleted after a minute."""

    sender = KeyField(_("sender"), max_length=32)
    body = models.TextField(_("body"))
    created_at = models.DateTimeField(_("created"), default=timezone.now, db_index=True)

    class Meta:
        verbose_name = _("message between processes")
        verbose_name_plural = _("messages between processes")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return str(self.pk)
