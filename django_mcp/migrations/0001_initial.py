import uuid

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import django_mcp.models.sessions


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="BusMessage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sender", models.CharField(max_length=32, verbose_name="sender")),
                ("body", models.TextField(verbose_name="body")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_index=True, default=django.utils.timezone.now, verbose_name="created"
                    ),
                ),
            ],
            options={
                "verbose_name": "message between processes",
                "verbose_name_plural": "messages between processes",
                "default_permissions": ("view", "delete"),
            },
        ),
        migrations.CreateModel(
            name="KeptState",
            fields=[
                (
                    "digest",
                    models.CharField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="digest"
                    ),
                ),
                (
                    "quota_key",
                    models.CharField(
                        db_index=True, editable=False, max_length=64, verbose_name="quota"
                    ),
                ),
                ("value", models.BinaryField(verbose_name="value")),
                ("size", models.PositiveIntegerField(help_text="In bytes.", verbose_name="size")),
                ("expires_at", models.DateTimeField(db_index=True, verbose_name="expires at")),
            ],
            options={
                "verbose_name": "state of a call",
                "verbose_name_plural": "states of calls",
                "default_permissions": ("view", "delete"),
            },
        ),
        migrations.CreateModel(
            name="UsedState",
            fields=[
                (
                    "digest",
                    models.CharField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="digest"
                    ),
                ),
                (
                    "quota_key",
                    models.CharField(
                        db_index=True, editable=False, max_length=64, verbose_name="quota"
                    ),
                ),
                ("expires_at", models.DateTimeField(db_index=True, verbose_name="expires at")),
            ],
            options={
                "verbose_name": "used state",
                "verbose_name_plural": "used states",
                "default_permissions": ("view", "delete"),
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("host", models.CharField(max_length=100, verbose_name="host")),
                ("pid", models.PositiveIntegerField(verbose_name="process id")),
                (
                    "started_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, verbose_name="started at"
                    ),
                ),
                (
                    "lease_until",
                    models.DateTimeField(
                        db_index=True,
                        help_text="A running process renews it before it ends.",
                        verbose_name="lease until",
                    ),
                ),
                (
                    "in_flight",
                    django_mcp.models.sessions.JSONTextField(
                        blank=True,
                        help_text="Requests that it answered recently.",
                        null=True,
                        verbose_name="in flight",
                    ),
                ),
            ],
            options={
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
                "default_permissions": ("view", "delete"),
            },
        ),
        migrations.CreateModel(
            name="APIKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "prefix",
                    models.CharField(
                        editable=False, max_length=12, unique=True, verbose_name="prefix"
                    ),
                ),
                ("digest", models.CharField(editable=False, max_length=64, verbose_name="digest")),
                (
                    "name",
                    models.CharField(
                        help_text="What the key is for, such as the name of a client.",
                        max_length=100,
                        verbose_name="name",
                    ),
                ),
                (
                    "scopes",
                    models.TextField(
                        blank=True,
                        help_text="The scopes that the key grants, for tools that require scopes; separated by spaces.",
                        verbose_name="scopes",
                    ),
                ),
                (
                    "is_restricted",
                    models.BooleanField(
                        default=False,
                        help_text="The key may use the tools listed below and no others.",
                        verbose_name="only some tools",
                    ),
                ),
                (
                    "tools",
                    models.TextField(
                        blank=True,
                        help_text="Names of tools, separated by spaces.",
                        verbose_name="tools",
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False, verbose_name="created"
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expires")),
                (
                    "last_used_at",
                    models.DateTimeField(
                        editable=False,
                        help_text="Accurate to the minute.",
                        null=True,
                        verbose_name="last used",
                    ),
                ),
                (
                    "revoked_at",
                    models.DateTimeField(editable=False, null=True, verbose_name="revoked"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        help_text="The user on whose behalf the key acts.",
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mcp_api_keys",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "API key",
                "verbose_name_plural": "API keys",
                "ordering": ("-created_at", "-pk"),
            },
        ),
        migrations.CreateModel(
            name="CallTally",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("width", models.SmallIntegerField()),
                ("minute", models.IntegerField()),
                ("server", models.CharField(max_length=100)),
                ("method", models.CharField(max_length=20)),
                ("name", models.CharField(max_length=200)),
                ("outcome", models.CharField(max_length=10)),
                ("step", models.SmallIntegerField()),
                ("calls", models.BigIntegerField()),
            ],
            options={
                "verbose_name": "tally of calls",
                "verbose_name_plural": "tallies of calls",
                "default_permissions": ("view", "delete"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("width", "minute", "server", "method", "name", "outcome", "step"),
                        name="django_mcp_call_tally",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PageVisit",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "principal_key",
                    models.CharField(blank=True, max_length=128, verbose_name="principal"),
                ),
                ("server", models.CharField(max_length=100, verbose_name="server")),
                ("entry", models.CharField(blank=True, max_length=200, verbose_name="entry")),
                ("path", models.TextField(verbose_name="path")),
                (
                    "session_key",
                    models.CharField(blank=True, max_length=64, verbose_name="session"),
                ),
                (
                    "state",
                    django_mcp.models.sessions.JSONTextField(
                        blank=True, null=True, verbose_name="state"
                    ),
                ),
                (
                    "result",
                    django_mcp.models.sessions.JSONTextField(
                        blank=True, null=True, verbose_name="result"
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="created"),
                ),
                (
                    "completed_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="completed"),
                ),
                ("expires_at", models.DateTimeField(db_index=True, verbose_name="expires at")),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "visit to a page",
                "verbose_name_plural": "visits to pages",
                "default_permissions": ("view", "delete"),
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "digest",
                    models.CharField(
                        editable=False, max_length=64, unique=True, verbose_name="digest"
                    ),
                ),
                ("server", models.CharField(max_length=100, verbose_name="server")),
                (
                    "principal_key",
                    models.CharField(blank=True, max_length=128, verbose_name="principal"),
                ),
                (
                    "quota_key",
                    models.CharField(
                        blank=True, editable=False, max_length=64, verbose_name="quota"
                    ),
                ),
                ("revision", models.CharField(max_length=20, verbose_name="revision")),
                (
                    "client_name",
                    models.CharField(blank=True, max_length=100, verbose_name="client"),
                ),
                (
                    "client_version",
                    models.CharField(blank=True, max_length=50, verbose_name="client version"),
                ),
                (
                    "client_info",
                    django_mcp.models.sessions.JSONTextField(
                        blank=True, null=True, verbose_name="client info"
                    ),
                ),
                (
                    "capabilities",
                    django_mcp.models.sessions.JSONTextField(
                        blank=True, default=dict, verbose_name="capabilities"
                    ),
                ),
                ("is_initialized", models.BooleanField(default=False, verbose_name="initialized")),
                (
                    "log_level",
                    models.CharField(blank=True, max_length=20, verbose_name="log level"),
                ),
                (
                    "transport",
                    models.CharField(default="http", max_length=10, verbose_name="transport"),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="opened"),
                ),
                (
                    "last_seen_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now,
                        help_text="Accurate to a few seconds.",
                        verbose_name="last seen",
                    ),
                ),
                (
                    "expires_at",
                    models.DateTimeField(
                        help_text="The latest end; an idle session ends earlier.",
                        verbose_name="expires",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "session",
                "verbose_name_plural": "sessions",
                "ordering": ("-last_seen_at", "-id"),
                "default_permissions": ("view", "end"),
            },
        ),
        migrations.CreateModel(
            name="PendingAnswer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("ask_id", models.CharField(max_length=64, verbose_name="id")),
                (
                    "answer",
                    django_mcp.models.sessions.JSONTextField(
                        blank=True, null=True, verbose_name="answer"
                    ),
                ),
                (
                    "answered_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="answered"),
                ),
                (
                    "size",
                    models.PositiveIntegerField(
                        default=0, help_text="Of the answer, in bytes.", verbose_name="size"
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="created"),
                ),
                ("expires_at", models.DateTimeField(db_index=True, verbose_name="expires")),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="questions",
                        to="django_mcp.session",
                        verbose_name="session",
                    ),
                ),
            ],
            options={
                "verbose_name": "question to a client",
                "verbose_name_plural": "questions to clients",
                "default_permissions": ("view", "delete"),
            },
        ),
        migrations.CreateModel(
            name="SessionItem",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=200, verbose_name="key")),
                ("value", django_mcp.models.sessions.JSONTextField(verbose_name="value")),
                (
                    "size",
                    models.PositiveIntegerField(
                        default=0, help_text="In bytes.", verbose_name="size"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="django_mcp.session",
                        verbose_name="session",
                    ),
                ),
            ],
            options={
                "verbose_name": "session item",
                "verbose_name_plural": "session items",
                "default_permissions": ("view", "delete"),
            },
        ),
        migrations.CreateModel(
            name="StreamEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("stream_id", models.UUIDField(verbose_name="stream")),
                ("number", models.PositiveIntegerField(verbose_name="number")),
                ("message", models.TextField(verbose_name="message")),
                ("is_last", models.BooleanField(default=False, verbose_name="last")),
                ("size", models.PositiveIntegerField(help_text="In bytes.", verbose_name="size")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_index=True, default=django.utils.timezone.now, verbose_name="created"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="django_mcp.session",
                        verbose_name="session",
                    ),
                ),
            ],
            options={
                "verbose_name": "event of a stream",
                "verbose_name_plural": "events of streams",
                "default_permissions": ("view", "delete"),
            },
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("uri", models.TextField(verbose_name="URI")),
                (
                    "uri_digest",
                    models.CharField(editable=False, max_length=64, verbose_name="digest"),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="created"),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="subscriptions",
                        to="django_mcp.session",
                        verbose_name="session",
                    ),
                ),
            ],
            options={
                "verbose_name": "subscription",
                "verbose_name_plural": "subscriptions",
                "default_permissions": ("view", "delete"),
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                (
                    "id",
                    models.CharField(
                        editable=False,
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        verbose_name="id",
                    ),
                ),
                ("server", models.CharField(max_length=100, verbose_name="server")),
                ("tool", models.CharField(max_length=128, verbose_name="tool")),
                (
                    "principal_key",
                    models.CharField(blank=True, max_length=128, verbose_name="principal"),
                ),
                (
                    "quota_key",
                    models.CharField(
                        blank=True, editable=False, max_length=64, verbose_name="quota"
                    ),
                ),
                ("session", models.CharField(blank=True, max_length=64, verbose_name="session")),
                ("revision", models.CharField(max_length=32, verbose_name="revision")),
                ("call", django_mcp.models.sessions.JSONTextField(verbose_name="call")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("working", "working"),
                            ("input_required", "waits for input"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        max_length=16,
                        verbose_name="status",
                    ),
                ),
                (
                    "status_message",
                    models.CharField(blank=True, max_length=500, verbose_name="status message"),
                ),
                ("rounds", django_mcp.models.sessions.JSONTextField(verbose_name="rounds")),
                ("result", models.BinaryField(blank=True, null=True, verbose_name="result")),
                (
                    "error",
                    django_mcp.models.sessions.JSONTextField(
                        blank=True, null=True, verbose_name="error"
                    ),
                ),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("updated_at", models.DateTimeField(verbose_name="updated at")),
                ("expires_at", models.DateTimeField(db_index=True, verbose_name="expires at")),
                ("ttl_ms", models.BigIntegerField(verbose_name="lifetime (ms)")),
                ("poll_ms", models.IntegerField(verbose_name="poll interval (ms)")),
                ("run", models.CharField(blank=True, max_length=64, verbose_name="run")),
                (
                    "leased_until",
                    models.DateTimeField(blank=True, null=True, verbose_name="leased until"),
                ),
                ("version", models.IntegerField(default=0, verbose_name="version")),
                (
                    "size",
                    models.PositiveIntegerField(
                        default=0, help_text="In bytes.", verbose_name="size"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "ordering": ("created_at", "id"),
                "default_permissions": ("view", "change", "delete"),
            },
        ),
        migrations.CreateModel(
            name="Stream",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("call", "call"),
                            ("get", "standalone"),
                            ("listen", "listening"),
                            ("sse", "HTTP+SSE"),
                            ("stdio", "stdio"),
                        ],
                        max_length=10,
                        verbose_name="kind",
                    ),
                ),
                ("server", models.CharField(max_length=100, verbose_name="server")),
                (
                    "principal_key",
                    models.CharField(blank=True, max_length=128, verbose_name="principal"),
                ),
                ("revision", models.CharField(blank=True, max_length=20, verbose_name="revision")),
                (
                    "client_name",
                    models.CharField(blank=True, max_length=100, verbose_name="client"),
                ),
                (
                    "client_version",
                    models.CharField(blank=True, max_length=50, verbose_name="client version"),
                ),
                (
                    "opened_at",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="opened"),
                ),
                (
                    "lists",
                    models.CharField(
                        blank=True,
                        help_text="Lists whose changes it receives.",
                        max_length=100,
                        verbose_name="lists",
                    ),
                ),
                (
                    "uri_count",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="The number of resources that it is subscribed to.",
                        verbose_name="resources",
                    ),
                ),
                (
                    "uri_digests",
                    models.TextField(
                        blank=True,
                        editable=False,
                        help_text="The resources that it is subscribed to, where no session keeps them.",
                        verbose_name="digests of resources",
                    ),
                ),
                (
                    "queued_events",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="Messages that recently waited to be sent.",
                        verbose_name="queued events",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="streams",
                        to="django_mcp.session",
                        verbose_name="session",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="streams",
                        to="django_mcp.worker",
                        verbose_name="worker",
                    ),
                ),
            ],
            options={
                "verbose_name": "stream",
                "verbose_name_plural": "streams",
                "ordering": ("-opened_at", "-id"),
                "default_permissions": ("view", "end"),
            },
        ),
        migrations.CreateModel(
            name="CallRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("started_at", models.DateTimeField(verbose_name="started at")),
                (
                    "minute",
                    models.IntegerField(
                        editable=False,
                        help_text="Minutes since the epoch, for the charts.",
                        verbose_name="minute",
                    ),
                ),
                ("duration_ms", models.FloatField(verbose_name="duration (ms)")),
                (
                    "step",
                    models.SmallIntegerField(
                        editable=False,
                        help_text="The duration on a logarithmic scale.",
                        verbose_name="step",
                    ),
                ),
                ("server", models.CharField(max_length=100, verbose_name="server")),
                (
                    "method",
                    models.CharField(
                        choices=[
                            ("tools/call", "tool"),
                            ("resources/read", "resource"),
                            ("prompts/get", "prompt"),
                        ],
                        max_length=20,
                        verbose_name="method",
                    ),
                ),
                ("name", models.CharField(max_length=200, verbose_name="name")),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("done", "done"),
                            ("failed", "tool error"),
                            ("refused", "refused"),
                            ("asked", "asked the client"),
                            ("cancelled", "cancelled"),
                            ("timeout", "timed out"),
                            ("fault", "internal error"),
                        ],
                        max_length=10,
                        verbose_name="outcome",
                    ),
                ),
                (
                    "reference",
                    models.CharField(blank=True, max_length=20, verbose_name="error reference"),
                ),
                (
                    "principal",
                    models.CharField(blank=True, max_length=128, verbose_name="principal"),
                ),
                ("revision", models.CharField(max_length=20, verbose_name="revision")),
                (
                    "client_name",
                    models.CharField(blank=True, max_length=100, verbose_name="client"),
                ),
                (
                    "client_version",
                    models.CharField(blank=True, max_length=50, verbose_name="client version"),
                ),
                ("arguments", models.TextField(blank=True, verbose_name="arguments")),
                ("session", models.CharField(blank=True, max_length=32, verbose_name="session")),
                (
                    "error",
                    models.CharField(
                        blank=True,
                        help_text="The class of the exception.",
                        max_length=100,
                        verbose_name="exception",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "call",
                "verbose_name_plural": "calls",
                "default_permissions": ("view", "delete", "export"),
                "indexes": [
                    models.Index(fields=["-started_at", "-id"], name="django_mcp_call_time"),
                    models.Index(
                        condition=models.Q(("session", ""), _negated=True),
                        fields=["session", "-started_at", "-id"],
                        name="django_mcp_call_session",
                    ),
                    models.Index(
                        condition=models.Q(("reference", ""), _negated=True),
                        fields=["reference"],
                        name="django_mcp_call_reference",
                    ),
                    models.Index(
                        condition=models.Q(("error", ""), _negated=True),
                        fields=["error", "-started_at", "-id"],
                        name="django_mcp_call_error",
                    ),
                    models.Index(
                        fields=["name", "-started_at", "-id"], name="django_mcp_call_name"
                    ),
                    models.Index(
                        fields=["outcome", "-started_at", "-id"], name="django_mcp_call_outcome"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DisabledEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("server", models.CharField(max_length=100, verbose_name="server")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("tools", "tool"),
                            ("resources", "resource"),
                            ("templates", "resource template"),
                            ("prompts", "prompt"),
                        ],
                        max_length=10,
                        verbose_name="kind",
                    ),
                ),
                (
                    "key",
                    models.CharField(
                        help_text="Its name; for resources, the URI or URI template.",
                        max_length=400,
                        verbose_name="key",
                    ),
                ),
                (
                    "disabled_at",
                    models.DateTimeField(auto_now_add=True, verbose_name="disabled at"),
                ),
                (
                    "disabled_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="disabled by",
                    ),
                ),
            ],
            options={
                "verbose_name": "catalogue entry",
                "verbose_name_plural": "catalogue",
                "permissions": (("try_entry", "Can call entries from the catalogue"),),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("server", "kind", "key"), name="django_mcp_disabled_once"
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["last_seen_at", "id"], name="django_mcp_session_seen"),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                fields=["server", "principal_key", "last_seen_at", "id"],
                name="django_mcp_session_owner",
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                fields=["server", "quota_key", "last_seen_at", "id"],
                name="django_mcp_session_quota",
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["expires_at"], name="django_mcp_session_expiry"),
        ),
        migrations.AddConstraint(
            model_name="pendinganswer",
            constraint=models.UniqueConstraint(
                fields=("session", "ask_id"), name="django_mcp_question_id"
            ),
        ),
        migrations.AddConstraint(
            model_name="sessionitem",
            constraint=models.UniqueConstraint(
                fields=("session", "key"), name="django_mcp_item_key"
            ),
        ),
        migrations.AddConstraint(
            model_name="streamevent",
            constraint=models.UniqueConstraint(
                fields=("stream_id", "number"), name="django_mcp_event_number"
            ),
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.UniqueConstraint(
                fields=("session", "uri_digest"), name="django_mcp_subscription_uri"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                models.F("server"),
                models.F("principal_key"),
                models.F("created_at"),
                name="django_mcp_task_owner",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                models.F("status"), models.F("session"), name="django_mcp_task_status"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                models.F("quota_key"), models.F("updated_at"), name="django_mcp_task_quota"
            ),
        ),
        migrations.AddIndex(
            model_name="stream",
            index=models.Index(fields=["-opened_at", "-id"], name="django_mcp_stream_opened"),
        ),
    ]
