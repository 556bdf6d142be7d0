"""Give fields of a form the values of arguments, in place of what a browser sends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from decimal import Decimal, DecimalException
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import router
from django.forms.utils import to_current_timezone
from django.utils.dateparse import parse_date, parse_time
from django.utils.translation import gettext as _

from django_mcp.execution.moments import parse_moment
from django_mcp.forms.schema import part_names, takes_tags
from django_mcp.forms.values import check_column, check_plain, is_a, value_field
from django_mcp.log import logger
from django_mcp.protocol.json import decode, encode

MAX_NUMBER = 10**30
"""Larger numbers have to be sent as text. Some are slow to convert, some cannot be."""


def key_field(field: Any) -> Any:
    """Return the field of the model whose values a field takes to tell objects apart."""
    meta = field.queryset.model._meta
    name = getattr(field, "to_field_name", None)
    return meta.get_field(name) if name else meta.pk


class _Given(forms.Widget):
    """Has the value of a field, in place of a widget that reads it from what a browser sends."""

    def __init__(self, value: Any, widget: Any, is_omitted: bool) -> None:  # noqa: FBT001
        super().__init__()
        self._is_omitted = is_omitted
        if hasattr(widget, "decompress"):
            # Of a field with several parts, which also compares its initial value by them.
            self.decompress = widget.decompress
            value = value if isinstance(value, list | tuple) else widget.decompress(value)
        self._value = value

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return self._value

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return self._is_omitted


def give(field: Any, value: Any, is_omitted: bool = False) -> None:  # noqa: FBT001, FBT002
    """Have a field read a value in place of what its widget would find."""
    if value is None and is_block(field):
        value = field.block.get_default()
    has_parts = isinstance(field, forms.SplitDateTimeField)
    if has_parts and isinstance(value, datetime):
        moment, value = value, _split(value)
        if type(field).compress is forms.SplitDateTimeField.compress:
            # The parts do not say which of the moments is meant that the clocks show twice.
            field.compress = lambda parts: moment if parts else None
    field.widget = _Given(value, field.widget, is_omitted)


def _split(moment: datetime) -> list[Any]:
    with suppress(OverflowError):
        moment = to_current_timezone(moment)
    return [moment.date(), moment.time()]


def fill(field: Any, value: Any) -> None:
    """Have a field read a value of JSON, or refuse it."""
    fault = _find_fault_of_tags(field, value)
    value, bounds = _to_parts(field, value)
    fault = fault or _find_fault_for(field, value)
    data = None
    if fault is None:
        try:
            data = _to_data(field, value)
        except ValidationError as error:
            fault = " ".join(error.messages)
    if is_block(field):
        data, fault = _read_blocks(field, data, fault)
    if isinstance(field, forms.MultiValueField) and isinstance(data, str):
        data, fault = None, str(field.error_messages["invalid"])
    give(field, data)
    if fault is None and bounds is not None:
        _set_bounds(field, bounds)
    if fault is None:
        return

    def clean(*_values: Any) -> Any:
        raise ValidationError(fault)

    field.clean = clean


def is_block(field: Any) -> bool:
    """Return whether a field is for a StreamField of wagtail, whose value is an object."""
    return is_a(field, "wagtail.blocks.base.BlockField")


def _read_blocks(field: Any, data: Any, fault: str | None) -> tuple[Any, str | None]:
    """Return the blocks of a list of JSON, or of its text, and what is wrong with it."""
    if fault is not None:
        return data, fault
    try:
        raw = decode(data.encode()) if isinstance(data, str) else data
        if not isinstance(raw, list) or any(
            each["type"] not in field.block.child_blocks for each in raw
        ):
            raise ValueError("blocks of other types")
        return field.block.to_python(raw), None
    except Exception:
        # Each block reads its value by code of its own, which expects what the editor sends.
        logger.debug("No blocks", exc_info=True)
        return None, str(field.error_messages.get("invalid", _("Enter a valid value.")))


def _to_parts(field: Any, value: Any) -> tuple[Any, str | None]:
    """Return a value as the list of its parts or as one text, where its field takes that, and bounds."""
    names = part_names(field)
    if names and isinstance(value, dict):
        return [value.get(name) for name in names], value.get("bounds")
    if takes_tags(field) and isinstance(value, list):
        return ", ".join(f'"{tag}"' for tag in value), None
    return value, None


def _find_fault_of_tags(field: Any, value: Any) -> str | None:
    """Return what is wrong with names of tags, which a field reads from one text, in quotation marks."""
    has_mark = isinstance(value, list) and any('"' in str(tag) for tag in value)
    return _("Enter a valid value.") if has_mark and takes_tags(field) else None


def _set_bounds(field: Any, bounds: str) -> None:
    """Have a range that a form makes get other bounds."""
    clean = field.clean

    def clean_with_bounds(value: Any) -> Any:
        if bounds == "empty":
            return field.range_type(empty=True)
        cleaned = clean(value)
        if cleaned is None:
            # No end: everything, as there is a range.
            return field.range_type(None, None, bounds)
        return field.range_type(cleaned.lower, cleaned.upper, bounds)

    field.clean = clean_with_bounds


def check_columns(field: Any, found: Any) -> None:
    """Have a field refuse values that the column of the model's field cannot hold."""
    if found is None or found.is_relation or not found.concrete:
        return
    clean, using = field.clean, router.db_for_write(found.model)

    def clean_for_column(*values: Any) -> Any:
        cleaned = clean(*values)
        check_column(found, cleaned, using)
        return cleaned

    field.clean = clean_for_column


def _find_fault_for(field: Any, value: Any) -> str | None:
    is_json = isinstance(field, forms.JSONField)
    if isinstance(value, list | dict) and not (is_json or _takes_several(field) or is_block(field)):
        return _("Enter a valid value.")
    fault = _find_fault(value, MAX_NUMBER, is_json=is_json)
    if fault is None and getattr(field, "queryset", None) is not None:
        key = key_field(field)
        parts = value if isinstance(value, list) else [value]
        fault = next(filter(None, (_find_key_fault(key, part) for part in parts)), None)
    return fault


def _find_key_fault(key: Any, value: Any) -> str | None:
    """Return what is wrong with a key that breaks queries; the form finds what else may be wrong."""
    key = value_field(key)
    try:
        cleaned_key = key.to_python(value)
    except (ArithmeticError, TypeError, ValidationError, ValueError):
        return None
    try:
        check_column(key, cleaned_key, router.db_for_read(key.model))
    except ValidationError:
        return _("Enter a valid value.")
    return None


def _takes_several(field: Any) -> bool:
    classes = (forms.MultipleChoiceField, forms.ModelMultipleChoiceField, forms.MultiValueField)
    return isinstance(field, classes) or hasattr(field, "base_field")


def _find_fault(value: Any, largest: int, *, is_json: bool) -> str | None:
    """Return what is wrong with a value that would break a field or a database."""
    try:
        check_plain(value)
    except ValidationError as error:
        return str(error.message)
    return _find_large(value, largest, is_json=is_json)


def _find_large(value: Any, largest: int, *, is_json: bool) -> str | None:
    if isinstance(value, list | dict):
        parts = value if isinstance(value, list) else value.values()
        faults = (_find_large(part, largest, is_json=is_json) for part in parts)
        return next(filter(None, faults), None)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and not is_json and not -largest < value < largest:
        return _("Enter a valid value.")
    return None


def data_of_initial(field: Any, initial: Any) -> Any:
    """Return the initial value of a field as `give` takes it."""
    # A form would show the moment without its zone, and twice a year that does not say which it is.
    return initial if isinstance(initial, datetime) else field.prepare_value(initial)


def _to_data(field: Any, value: Any) -> Any:
    """Return a value of JSON as a field takes it, whatever the formats of the active language.

    Raises:
        ValidationError: it is a time that the clocks of the current time zone skip or repeat, or has no
            form in UTC.
    """
    if isinstance(field, forms.JSONField):
        return encode(value).decode() if isinstance(value, str) else value
    if isinstance(value, list):
        base = getattr(field, "base_field", None)
        parts = getattr(field, "fields", None) or [base] * len(value)
        return [_to_data(part, each) for part, each in zip(parts, value, strict=False)]
    for classes, convert in _CONVERSIONS:
        if isinstance(field, classes) and isinstance(value, str | int | float):
            try:
                cleaned_value = convert(str(value))
            except (DecimalException, ValueError):
                cleaned_value = None
            return value if cleaned_value is None else cleaned_value
    return value


_CONVERSIONS: tuple[tuple[Any, Callable[[str], Any]], ...] = (
    ((forms.DateTimeField, forms.SplitDateTimeField), parse_moment),
    (forms.DateField, parse_date),
    (forms.TimeField, parse_time),
    (forms.DecimalField, Decimal),
)
"""Fields that read texts in the formats of the active language."""
