from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mcp", "0003_keys_as_bytes"),
    ]

    operations = [
        migrations.AddField(
            model_name="session",
            name="subscriptions_version",
            field=models.PositiveBigIntegerField(default=0, editable=False),
        ),
    ]
