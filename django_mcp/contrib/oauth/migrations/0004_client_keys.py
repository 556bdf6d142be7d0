import django.db.models.deletion
from django.db import migrations, models
from oauth2_provider.settings import oauth2_settings

import django_mcp.models.fields


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(oauth2_settings.APPLICATION_MODEL),
        ("django_mcp_oauth", "0003_sign_ins"),
    ]

    operations = [
        migrations.CreateModel(
            name="ClientKeys",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("jwks", models.TextField(blank=True)),
                ("jwks_uri", models.CharField(blank=True, max_length=500)),
                ("algorithm", models.CharField(blank=True, max_length=16)),
                ("expires", models.DateTimeField(null=True)),
                ("tried", models.DateTimeField(null=True)),
                (
                    "application",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=oauth2_settings.APPLICATION_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "keys of a client",
                "verbose_name_plural": "keys of clients",
            },
        ),
        migrations.CreateModel(
            name="UsedAssertion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digest", django_mcp.models.fields.KeyField(max_length=64, unique=True)),
                ("expires", models.DateTimeField(db_index=True)),
                (
                    "application",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=oauth2_settings.APPLICATION_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "used assertion",
                "verbose_name_plural": "used assertions",
            },
        ),
    ]
