from django.db import migrations, models

from django_mcp.models.fields import KeyField, set_collations


class Migration(migrations.Migration):
    dependencies = [
        ("django_mcp", "0002_restricted_keys"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="task",
            name="django_mcp_task_owner",
        ),
        migrations.RemoveIndex(
            model_name="task",
            name="django_mcp_task_status",
        ),
        migrations.RemoveIndex(
            model_name="task",
            name="django_mcp_task_quota",
        ),
        # Other databases compare texts exactly, and have nothing to change.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="apikey",
                    name="digest",
                    field=KeyField(editable=False, max_length=64, verbose_name="digest"),
                ),
                migrations.AlterField(
                    model_name="apikey",
                    name="prefix",
                    field=KeyField(
                        editable=False, max_length=12, unique=True, verbose_name="prefix"
                    ),
                ),
                migrations.AlterField(
                    model_name="busmessage",
                    name="sender",
                    field=KeyField(max_length=32, verbose_name="sender"),
                ),
                migrations.AlterField(
                    model_name="callrecord",
                    name="error",
                    field=KeyField(
                        blank=True,
                        help_text="The class of the exception.",
                        max_length=100,
                        verbose_name="exception",
                    ),
                ),
                migrations.AlterField(
                    model_name="callrecord",
                    name="method",
                    field=KeyField(
                        choices=[
                            ("tools/call", "tool"),
                            ("resources/read", "resource"),
                            ("prompts/get", "prompt"),
                        ],
                        max_length=20,
                        verbose_name="method",
                    ),
                ),
                migrations.AlterField(
                    model_name="callrecord",
                    name="name",
                    field=KeyField(max_length=200, verbose_name="name"),
                ),
                migrations.AlterField(
                    model_name="callrecord",
                    name="outcome",
                    field=KeyField(
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
                migrations.AlterField(
                    model_name="callrecord",
                    name="principal",
                    field=KeyField(blank=True, max_length=128, verbose_name="principal"),
                ),
                migrations.AlterField(
                    model_name="callrecord",
                    name="reference",
                    field=KeyField(blank=True, max_length=20, verbose_name="error reference"),
                ),
                migrations.AlterField(
                    model_name="callrecord",
                    name="server",
                    field=KeyField(max_length=100, verbose_name="server"),
                ),
                migrations.AlterField(
                    model_name="callrecord",
                    name="session",
                    field=KeyField(blank=True, max_length=32, verbose_name="session"),
                ),
                migrations.AlterField(
                    model_name="calltally",
                    name="method",
                    field=KeyField(max_length=20),
                ),
                migrations.AlterField(
                    model_name="calltally",
                    name="name",
                    field=KeyField(max_length=200),
                ),
                migrations.AlterField(
                    model_name="calltally",
                    name="outcome",
                    field=KeyField(max_length=10),
                ),
                migrations.AlterField(
                    model_name="calltally",
                    name="server",
                    field=KeyField(max_length=100),
                ),
                migrations.AlterField(
                    model_name="disabledentry",
                    name="key",
                    field=KeyField(
                        help_text="Its name; for resources, the URI or URI template.",
                        max_length=400,
                        verbose_name="key",
                    ),
                ),
                migrations.AlterField(
                    model_name="disabledentry",
                    name="kind",
                    field=KeyField(
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
                migrations.AlterField(
                    model_name="disabledentry",
                    name="server",
                    field=KeyField(max_length=100, verbose_name="server"),
                ),
                migrations.AlterField(
                    model_name="givenlink",
                    name="digest",
                    field=KeyField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="digest"
                    ),
                ),
                migrations.AlterField(
                    model_name="givenlink",
                    name="quota_key",
                    field=KeyField(
                        db_index=True, editable=False, max_length=64, verbose_name="quota"
                    ),
                ),
                migrations.AlterField(
                    model_name="keptstate",
                    name="digest",
                    field=KeyField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="digest"
                    ),
                ),
                migrations.AlterField(
                    model_name="keptstate",
                    name="quota_key",
                    field=KeyField(
                        db_index=True, editable=False, max_length=64, verbose_name="quota"
                    ),
                ),
                migrations.AlterField(
                    model_name="pagevisit",
                    name="entry",
                    field=KeyField(blank=True, max_length=200, verbose_name="entry"),
                ),
                migrations.AlterField(
                    model_name="pagevisit",
                    name="principal_key",
                    field=KeyField(blank=True, max_length=128, verbose_name="principal"),
                ),
                migrations.AlterField(
                    model_name="pagevisit",
                    name="server",
                    field=KeyField(max_length=100, verbose_name="server"),
                ),
                migrations.AlterField(
                    model_name="pagevisit",
                    name="session_key",
                    field=KeyField(blank=True, max_length=64, verbose_name="session"),
                ),
                migrations.AlterField(
                    model_name="pendinganswer",
                    name="ask_id",
                    field=KeyField(max_length=64, verbose_name="id"),
                ),
                migrations.AlterField(
                    model_name="session",
                    name="digest",
                    field=KeyField(
                        editable=False, max_length=64, unique=True, verbose_name="digest"
                    ),
                ),
                migrations.AlterField(
                    model_name="session",
                    name="principal_key",
                    field=KeyField(blank=True, max_length=128, verbose_name="principal"),
                ),
                migrations.AlterField(
                    model_name="session",
                    name="quota_key",
                    field=KeyField(blank=True, editable=False, max_length=64, verbose_name="quota"),
                ),
                migrations.AlterField(
                    model_name="session",
                    name="server",
                    field=KeyField(max_length=100, verbose_name="server"),
                ),
                migrations.AlterField(
                    model_name="session",
                    name="transport",
                    field=KeyField(default="http", max_length=10, verbose_name="transport"),
                ),
                migrations.AlterField(
                    model_name="sessionitem",
                    name="key",
                    field=KeyField(max_length=200, verbose_name="key"),
                ),
                migrations.AlterField(
                    model_name="stream",
                    name="kind",
                    field=KeyField(
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
                migrations.AlterField(
                    model_name="stream",
                    name="principal_key",
                    field=KeyField(blank=True, max_length=128, verbose_name="principal"),
                ),
                migrations.AlterField(
                    model_name="stream",
                    name="server",
                    field=KeyField(max_length=100, verbose_name="server"),
                ),
                migrations.AlterField(
                    model_name="subscription",
                    name="uri_digest",
                    field=KeyField(editable=False, max_length=64, verbose_name="digest"),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="id",
                    field=KeyField(
                        editable=False,
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        verbose_name="id",
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="principal_key",
                    field=KeyField(blank=True, max_length=128, verbose_name="principal"),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="quota_key",
                    field=KeyField(blank=True, editable=False, max_length=64, verbose_name="quota"),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="run",
                    field=KeyField(blank=True, max_length=64, verbose_name="run"),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="server",
                    field=KeyField(max_length=100, verbose_name="server"),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="session",
                    field=KeyField(blank=True, max_length=64, verbose_name="session"),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="status",
                    field=KeyField(
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
                migrations.AlterField(
                    model_name="task",
                    name="tool",
                    field=KeyField(max_length=128, verbose_name="tool"),
                ),
                migrations.AlterField(
                    model_name="usedstate",
                    name="digest",
                    field=KeyField(
                        max_length=64, primary_key=True, serialize=False, verbose_name="digest"
                    ),
                ),
                migrations.AlterField(
                    model_name="usedstate",
                    name="quota_key",
                    field=KeyField(
                        db_index=True, editable=False, max_length=64, verbose_name="quota"
                    ),
                ),
            ]
        ),
        migrations.RunPython(set_collations("django_mcp"), migrations.RunPython.noop, atomic=False),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                fields=["server", "principal_key", "created_at"], name="django_mcp_task_owner"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["status", "session"], name="django_mcp_task_status"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["quota_key", "updated_at"], name="django_mcp_task_quota"),
        ),
    ]
