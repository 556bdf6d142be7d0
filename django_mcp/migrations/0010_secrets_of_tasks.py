import hashlib

from django.db import migrations

import django_mcp.models.fields


def separate(apps, schema_editor):
    """Make the id that clients know of each task its secret, and the digest of that its key."""
    tasks = apps.get_model("django_mcp", "Task")._base_manager.using(schema_editor.connection.alias)
    for known in list(tasks.filter(secret="").values_list("pk", flat=True)):
        key = hashlib.sha256(known.encode()).hexdigest()
        tasks.filter(pk=known).update(id=key, secret=known)


def join(apps, schema_editor):
    """Make the id that clients know the key of each task again."""
    tasks = apps.get_model("django_mcp", "Task")._base_manager.using(schema_editor.connection.alias)
    for key, known in list(tasks.exclude(secret="").values_list("pk", "secret")):
        tasks.filter(pk=key).update(id=known)


class Migration(migrations.Migration):
    dependencies = [
        ("django_mcp", "0009_queues_and_handlers"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="secret",
            field=django_mcp.models.fields.KeyField(
                db_default="", editable=False, max_length=64, verbose_name="id for clients"
            ),
        ),
        migrations.RunPython(separate, join),
    ]
