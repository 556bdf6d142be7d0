"""Models whose fields have each kind of value that APIs show."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from simple_history.models import HistoricalRecords


class Author(models.Model):
    name = models.CharField(max_length=60)
    email = models.EmailField(blank=True)

    objects: ClassVar[Any] = models.Manager()

    def __str__(self) -> str:
        return self.name


class Volume(models.Model):
    class Kind(models.TextChoices):
        NOVEL = "novel"
        ESSAY = "essay"

    title = models.CharField(max_length=60)
    kind = models.CharField(max_length=10, choices=Kind)
    author = models.ForeignKey(Author, models.CASCADE, related_name="volumes")
    price = models.DecimalField(max_digits=7, decimal_places=2)
    weight = models.FloatField(null=True, blank=True)
    published = models.DateField(null=True, blank=True)
    read_for = models.DurationField(null=True, blank=True)
    changed_at = models.DateTimeField()
    number = models.UUIDField(unique=True)
    extra = models.JSONField(default=dict, blank=True)
    cover = models.FileField(blank=True, upload_to="covers")
    others = models.ManyToManyField("self", blank=True)
    history = HistoricalRecords()

    objects: ClassVar[Any] = models.Manager()

    def __str__(self) -> str:
        return self.title
