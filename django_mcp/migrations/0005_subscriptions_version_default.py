from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_mcp", "0004_subscriptions_version"),
    ]

    operations = [
        migrations.AlterField(
            model_name="session",
            name="subscriptions_version",
            field=models.PositiveBigIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
