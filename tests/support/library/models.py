"""Books of a library, and their loans."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinLengthValidator, MinValueValidator
from django.db import models
from django.utils import timezone


class Tag(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(max_length=20)

    def __str__(self) -> str:
        return self.name

    def rename(self, name: str) -> None:
        self.name = name
        self.save()


class Shelf(models.Model):
    name = models.CharField(max_length=20, unique=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)

    class Meta:
        verbose_name_plural = "shelves"

    def __str__(self) -> str:
        return self.name


class BookManager(models.Manager["Book"]):
    """Leaves out removed books."""

    def get_queryset(self) -> models.QuerySet[Book]:
        return super().get_queryset().filter(removed_at=None)

    def remove(self) -> int:
        return self.get_queryset().update(removed_at=timezone.now())

    def number(self) -> int:
        return self.count()


class Book(models.Model):
    isbn = models.CharField("ISBN", max_length=13, primary_key=True)
    title = models.CharField(max_length=100, validators=[MinLengthValidator(2)])
    shelf = models.ForeignKey(Shelf, null=True, blank=True, on_delete=models.SET_NULL)
    place = models.PositiveIntegerField(null=True, blank=True)
    tags = models.ManyToManyField(Tag, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = BookManager()
    everything: models.Manager[Book] = models.Manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["shelf", "place"],
                condition=models.Q(removed_at=None),
                name="library_one_book_at_a_place",
            ),
            models.UniqueConstraint(fields=["title", "isbn"], name="library_title"),
            models.CheckConstraint(condition=~models.Q(title="secret"), name="library_no_secret"),
        ]

    def __str__(self) -> str:
        return self.title

    def clean(self) -> None:
        if self.place is not None and self.shelf_id is None:
            raise ValidationError({"place": "A place needs a shelf."})


class Loan(models.Model):
    book = models.ForeignKey(Book, on_delete=models.CASCADE, related_name="loans")
    days = models.PositiveIntegerField(default=14)

    def __str__(self) -> str:
        return f"{self.book_id} for {self.days} days"


class Reminder(models.Model):
    loan = models.ForeignKey(Loan, on_delete=models.CASCADE)
    text: Any = models.TextField()

    def __str__(self) -> str:
        return str(self.text)


class Event(models.Model):
    """Has a key of 64 bits from another system."""

    id = models.BigIntegerField(primary_key=True)
    cause = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL)
    others = models.ManyToManyField("self", blank=True, symmetrical=False, related_name="other_of")
    size = models.PositiveBigIntegerField(default=0)
    level = models.BigIntegerField(
        default=0, validators=[MinValueValidator(-10), MaxValueValidator(10)]
    )

    def __str__(self) -> str:
        return f"event {self.pk}"


class Sample(models.Model):
    """Has a field of each kind, and relations of each kind."""

    code = models.SlugField(max_length=40, unique=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    label = models.CharField(max_length=600, blank=True)
    note = models.TextField(blank=True)
    mail = models.EmailField(blank=True)
    level = models.SmallIntegerField(default=0)
    size = models.IntegerField(default=0)
    weight = models.BigIntegerField(default=0)
    amount = models.PositiveIntegerField(default=0)
    ratio = models.FloatField(default=0)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    is_open = models.BooleanField(default=True)
    is_known = models.BooleanField(null=True, blank=True)
    day = models.DateField(null=True, blank=True)
    moment = models.DateTimeField(null=True, blank=True)
    clock = models.TimeField(null=True, blank=True)
    took = models.DurationField(null=True, blank=True)
    address = models.GenericIPAddressField(null=True, blank=True)
    uid = models.UUIDField(null=True, blank=True)
    data = models.JSONField(default=dict, blank=True)
    scan = models.BinaryField(null=True, blank=True)
    kind = models.CharField(max_length=1, choices=[("a", "A"), ("b", "B")], default="a")
    tags = models.ManyToManyField(Tag, blank=True)

    class Meta:
        ordering = ["code"]

    def __str__(self) -> str:
        return self.code


class Part(models.Model):
    """One of the parts of a sample, of which there may be many."""

    sample = models.ForeignKey(Sample, on_delete=models.CASCADE, related_name="parts")
    name = models.CharField(max_length=20)

    def __str__(self) -> str:
        return self.name
