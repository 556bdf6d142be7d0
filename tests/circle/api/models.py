"""The models of the API."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from simple_history.models import HistoricalRecords


class Row(models.Model):
    objects: Any = models.Manager()

    class Meta:
        abstract = True


class Label(Row):
    word = models.CharField(max_length=20, unique=True)

    def __str__(self) -> str:
        return self.word


class Company(Row):
    class Size(models.IntegerChoices):
        SMALL = 1, "small"
        LARGE = 2, "large"

    name = models.CharField(max_length=50)
    slug = models.SlugField(unique=True)
    size = models.IntegerField(choices=Size.choices, null=True, blank=True)
    website = models.URLField(null=True, blank=True)  # noqa: DJ001 - null is apart from empty
    is_active = models.BooleanField(null=True)
    budget = models.DecimalField(max_digits=20, decimal_places=10, default=0)
    settings = models.JSONField(default=dict, blank=True)
    logo = models.FileField(upload_to="logos", blank=True)
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "Größe"
        verbose_name_plural = "Größen"

    def __str__(self) -> str:
        return self.name


class Project(Row):
    tasks: Any
    company = models.ForeignKey(Company, models.CASCADE, related_name="projects")
    title = models.CharField(max_length=50)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    starts = models.DateField(null=True, blank=True)
    labels: Any = models.ManyToManyField(Label, blank=True)
    history = HistoricalRecords()

    def __str__(self) -> str:
        return self.title


class Task(Row):
    steps: Any
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    project = models.ForeignKey(Project, models.CASCADE, related_name="tasks")
    text = models.TextField()
    note = models.CharField(max_length=50, null=True, blank=True)  # noqa: DJ001
    state = models.CharField(
        max_length=10, choices=[("open", "open"), ("done", "done")], default="open", blank=True
    )
    hours = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0)])
    takes = models.DurationField(null=True, blank=True)
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.text


class Step(Row):
    task = models.ForeignKey(Task, models.CASCADE, related_name="steps")
    position = models.PositiveSmallIntegerField()
    text = models.CharField(max_length=50)

    class Meta:
        unique_together = [("task", "position")]

    def __str__(self) -> str:
        return self.text
