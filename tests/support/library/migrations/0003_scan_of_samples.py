from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("library", "0002_samples")]

    operations = [
        migrations.AddField("Sample", "scan", models.BinaryField(blank=True, null=True)),
    ]
