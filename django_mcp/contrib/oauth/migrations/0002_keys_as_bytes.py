from django.db import migrations

from django_mcp.models.fields import KeyField, set_collations


class Migration(migrations.Migration):
    dependencies = [
        ("django_mcp_oauth", "0001_initial"),
    ]

    operations = [
        # Other databases compare texts exactly, and have nothing to change.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="clientendpoint",
                    name="resource",
                    field=KeyField(
                        help_text="The full address of the endpoint, such as https://shop.example.com/mcp.",
                        max_length=500,
                        verbose_name="endpoint",
                    ),
                )
            ]
        ),
        migrations.RunPython(
            set_collations("django_mcp_oauth"), migrations.RunPython.noop, atomic=False
        ),
    ]
