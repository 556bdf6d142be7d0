import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("library", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Sample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("code", models.SlugField(max_length=40, unique=True)),
                ("label", models.CharField(blank=True, max_length=600)),
                ("note", models.TextField(blank=True)),
                ("mail", models.EmailField(blank=True, max_length=254)),
                ("level", models.SmallIntegerField(default=0)),
                ("size", models.IntegerField(default=0)),
                ("weight", models.BigIntegerField(default=0)),
                ("amount", models.PositiveIntegerField(default=0)),
                ("ratio", models.FloatField(default=0)),
                ("price", models.DecimalField(decimal_places=2, default=0, max_digits=8)),
                ("is_open", models.BooleanField(default=True)),
                ("is_known", models.BooleanField(blank=True, null=True)),
                ("day", models.DateField(blank=True, null=True)),
                ("moment", models.DateTimeField(blank=True, null=True)),
                ("clock", models.TimeField(blank=True, null=True)),
                ("took", models.DurationField(blank=True, null=True)),
                ("address", models.GenericIPAddressField(blank=True, null=True)),
                ("uid", models.UUIDField(blank=True, null=True)),
                ("data", models.JSONField(blank=True, default=dict)),
                (
                    "kind",
                    models.CharField(choices=[("a", "A"), ("b", "B")], default="a", max_length=1),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("tags", models.ManyToManyField(blank=True, to="library.tag")),
            ],
            options={
                "ordering": ["code"],
            },
        ),
        migrations.CreateModel(
            name="Part",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=20)),
                (
                    "sample",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="parts",
                        to="library.sample",
                    ),
                ),
            ],
        ),
    ]
