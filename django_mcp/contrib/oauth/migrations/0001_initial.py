import django.db.models.deletion
from django.db import migrations, models
from oauth2_provider.settings import oauth2_settings


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(oauth2_settings.APPLICATION_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ClientEndpoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "resource",
                    models.CharField(
                        help_text="The full address of the endpoint, such as https://shop.example.com/mcp.",
                        max_length=500,
                        verbose_name="endpoint",
                    ),
                ),
                (
                    "application",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=oauth2_settings.APPLICATION_MODEL,
                        verbose_name="client",
                    ),
                ),
            ],
            options={
                "verbose_name": "endpoint of a client",
                "verbose_name_plural": "endpoints of clients",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("application", "resource"), name="django_mcp_oauth_client_endpoint"
                    )
                ],
            },
        ),
    ]
