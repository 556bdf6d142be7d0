"""Rows of every model of a site, made from its fields alone."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.core.files.base import ContentFile
from django.db import DatabaseError, models, transaction

COUNT = 3
"""Rows of a model. The optional fields of the first are null or empty, those of the others have values."""

_OF_TREES = {"path", "depth", "numchild", "lft", "rgt", "tree_id", "level", "tree_depth"}

_NAMED: dict[str, list[Any]] = {
    "MoneyField": [Decimal("12.50"), Decimal(0), Decimal("7.25")],
    "CurrencyField": ["EUR", "EUR", "USD"],
    "PhoneNumberField": ["+4930123456", "+4930123457", "+4930123458"],
    "CountryField": ["DE", "NZ", "FR"],
    "GeoLocationField": ["1", "2", "3"],
    "StreamField": [[("heading", "One")], [("heading", "Two")], [("heading", "Three")]],
    "JSONField": [{}, {"a": [1, None]}, [{"b": True}]],
    "AttributesField": [{}, {"a": "b"}, {}],
}
"""Values of the fields that a class of this name is for, in place of those of its type."""


_PICTURE = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def _pick(values: list[Any], number: int) -> Any:
    return values[number % len(values)]


def _value(field: Any, number: int) -> Any:
    """Return a value for a field of the row with a number."""
    for cls in type(field).__mro__:
        if cls.__name__ in _NAMED:
            value = _pick(_NAMED[cls.__name__], number)
            return [value] if getattr(field, "multiple", False) else value
    choices = [value for value, _label in field.flatchoices or () if value not in ("", None)]
    if choices:
        value = _pick(choices, number)
        return [value] if "MultiSelect" in type(field).__name__ else value
    kind = field.get_internal_type()
    if kind in ("CharField", "TextField", "SlugField", "EmailField", "URLField", "FilePathField"):
        return _text(field, kind, number)
    if kind in ("FileField", "ImageField"):
        is_picture = any("Image" in cls.__name__ for cls in type(field).__mro__)
        suffix = "png" if is_picture else "txt"
        return ContentFile(_PICTURE, name=f"file-{number}.{suffix}")
    return _PLAIN[kind](number) if kind in _PLAIN else f"{number}"


def _text(field: Any, kind: str, number: int) -> str:
    cls = type(field).__name__
    if "Email" in cls or "email" in field.name:
        return f"row-{number}@example.com"
    if "URL" in cls:
        return f"https://example.com/{number}"
    if field.name == "url" or field.name.endswith("_path"):
        return f"/{number}" + "/" * (field.name == "url")
    if field.name == "language_code":
        return _pick(["en", "de", "fr"], number)
    if field.name.startswith("object_"):
        return f"{number + 1}"
    word = f"{field.name}-{number}".replace("_", "-")
    return word[-(field.max_length or 60) :].strip("-")


_PLAIN: dict[str, Any] = {
    "BooleanField": lambda n: n == 1,
    "NullBooleanField": lambda n: n == 1,
    "DecimalField": Decimal,
    "FloatField": lambda n: n + 0.5,
    "DateField": lambda n: date(2026, 1, 1 + n),
    "DateTimeField": lambda n: datetime(2026, 1, 1 + n, 12, tzinfo=UTC),
    "TimeField": lambda n: time(12, n),
    "DurationField": lambda n: timedelta(minutes=n),
    "UUIDField": lambda n: UUID(int=n + 1),
    "GenericIPAddressField": lambda n: f"10.0.0.{n}",
    "BinaryField": lambda n: b"bytes",
    **dict.fromkeys(
        ("IntegerField", "BigIntegerField", "SmallIntegerField", "PositiveIntegerField",
         "PositiveBigIntegerField", "PositiveSmallIntegerField"), lambda n: n + 1
    ),
}  # fmt: skip


def is_optional(field: Any) -> bool:
    """Return whether a row may be without a value of a field."""
    return bool(field.null or field.blank or field.has_default())


class Rows:
    """Makes rows, those of required relations first.

    Attributes:
        failed: why a model has no rows, by its label.
    """

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self._made: dict[type[models.Model], list[Any]] = {}

    def make_all(self) -> None:
        """Make the rows of all models of the site."""
        for model in apps.get_models():
            meta = model._meta
            if not (meta.proxy or meta.swapped or not meta.managed):
                self.of(model)

    def of(self, model: type[models.Model]) -> list[Any]:
        """Return the rows of a model."""
        model = model._meta.concrete_model or model
        if model in self._made:
            return self._made[model]
        rows: list[Any] = []
        self._made[model] = rows
        if model is ContentType:
            rows += ContentType.objects.order_by("pk")[:COUNT]
        for number in range(COUNT - len(rows)):
            # A model may need one of several optional values, and refuse two.
            optional = [field.name for field in model._meta.concrete_fields if is_optional(field)]
            for only in (None, *([each] for each in optional)):
                try:
                    with transaction.atomic():
                        rows.append(self._make(model, number, only))
                except Exception as error:  # noqa: BLE001  (whatever a package raises is the reason)
                    self.failed.setdefault(model._meta.label, f"{type(error).__name__}: {error}")
                else:
                    break
        if rows:
            self.failed.pop(model._meta.label, None)
        return rows

    def _make(self, model: Any, number: int, only: Collection[str] | None = None) -> Any:
        """Make the row with a number; of the optional values, with `only` those of these fields."""
        values: dict[str, Any] = {}
        for field in model._meta.concrete_fields:
            if self._is_set_elsewhere(field):
                continue
            is_skipped = number == 0 or not field.editable
            if only is not None:
                is_skipped = field.name not in only
            if is_optional(field) and is_skipped and field.name != "master":
                continue
            if not field.is_relation:
                values[field.name] = _value(field, number)
                continue
            other = self._choose(model, field, number)
            if other is not None or not field.null:
                values[field.name] = other
        for name in getattr(getattr(model, "_parler_meta", None), "get_all_fields", list)():
            values[name] = f"{name}-{number}"
        instance = self._save(model, values)
        for field in model._meta.many_to_many:
            is_plain = field.remote_field.through._meta.auto_created and field.related_model
            if is_plain and (number or not field.blank):
                getattr(instance, field.name).set(self.of(field.related_model)[:2])
        return instance

    def _choose(self, model: Any, field: Any, number: int) -> Any:
        """Return the object that a relation of a row leads to; None, if there is none and it may be null."""
        is_generic = hasattr(model, "object_id") or hasattr(model, "object_pk")
        if field.related_model is ContentType and not is_generic:
            # The kind of the row itself, as where models extend each other.
            return ContentType.objects.get_for_model(model)
        others = self.of(field.related_model)
        if not others and not field.null:
            raise LookupError(f"there is no {field.related_model._meta.label}")
        return _pick(others, number) if others else None

    def _is_set_elsewhere(self, field: Any) -> bool:
        is_key = field.primary_key and (isinstance(field, models.AutoField) or field.has_default())
        is_parent = field.is_relation and field.remote_field.parent_link
        is_of_tree = field.name in _OF_TREES and not field.is_relation
        is_now = getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False)
        return is_key or is_parent or is_of_tree or is_now or field.generated

    def _save(self, model: Any, values: dict[str, Any]) -> Any:
        if hasattr(model, "add_root"):
            return model.add_root(**values)
        instance = model(**values)
        instance.save()
        return instance


def read_row(instance: models.Model) -> dict[str, Any]:
    """Return what the database has of an object, but for what changes with each save."""
    model = type(instance)
    names = [
        field.name for field in model._meta.concrete_fields if not getattr(field, "auto_now", False)
    ]
    stored: dict[str, Any] = {}
    for row in model._base_manager.filter(pk=instance.pk):
        for name in names:
            field: Any = model._meta.get_field(name)
            value = field.value_from_object(row)
            stored[name] = repr(value)
        for field in model._meta.many_to_many:
            try:
                related = getattr(row, field.name).all()
            except (AttributeError, DatabaseError):
                continue
            stored[field.name] = sorted(str(each.pk) for each in related)
    return stored
