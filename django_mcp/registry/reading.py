"""Read a result by its declared type: fields from attributes, lists from any iterable.

A tool that declares `-> list[OrderOut]` may return a QuerySet of orders. pydantic reads attributes
only for its own models, and lists only from lists; this module prepares the values. The rules are
compiled once per type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from django_mcp.protocol.json import is_lazy
from django_mcp.registry import hints

Read: TypeAlias = Callable[[Any], Any]
"""Takes a value and returns it, or a plainer one that pydantic can read as the declared type."""

_SCALARS = (str, bytes, int, float, bool, type(None))
_LISTS = (list, tuple, set, frozenset)


def compile_reading(annotation: Any, unfold: Read) -> Read:
    """Return a function that prepares values of a declared type for pydantic.

    Args:
        annotation: the declared type.
        unfold: converts an object that is not iterable where a list is declared, or any where a
            list of dicts is; returns others unchanged.
    """
    return _Compiler(unfold).compile(annotation) or (lambda value: value)


def _read_text(value: Any) -> Any:
    return str(value) if is_lazy(value) else value


class _Compiler:
    def __init__(self, unfold: Read) -> None:
        self._unfold = unfold
        self._records: dict[Any, _Record] = {}

    def compile(self, annotation: Any) -> Read | None:
        """Return the rule of a type; None if its values need no preparation."""
        parts = [part for part in hints.members(annotation) if part is not type(None)]
        if len(parts) != 1:
            records = [part for part in parts if hints.is_record(part)]
            return self._compile_record(records[0]) if len(records) == 1 else None
        plain = parts[0]
        if plain is str:
            return _read_text
        kind = get_origin(plain) or plain
        arguments = get_args(plain)
        if hints.is_record(kind):
            return self._compile_record(kind)
        if not isinstance(kind, type):
            return None
        if issubclass(kind, Mapping):
            return self._compile_mapping(arguments[1] if len(arguments) == 2 else Any)
        if issubclass(kind, Iterable) and not issubclass(kind, str | bytes | bytearray):
            is_plain_list = len(arguments) == 1 or (len(arguments) == 2 and arguments[1] is ...)
            return self._compile_list(arguments[0] if is_plain_list else Any)
        return None

    def _compile_list(self, item: Any) -> Read:
        read_item, unfold = self.compile(item), self._unfold
        is_open = any(
            (get_origin(member) or member) in (dict, Mapping) for member in hints.members(item)
        )

        def read(value: Any) -> Any:
            if value is None or isinstance(value, str | bytes | Mapping):
                return value
            if is_open:
                value = unfold(value)  # which refuses rows if nothing names their fields
            if not isinstance(value, Iterable):
                # A manager of related objects is not iterable, but has a queryset.
                value = value.all() if callable(getattr(value, "all", None)) else unfold(value)
            if not isinstance(value, Iterable):
                return value
            if read_item is not None:
                return [read_item(item) for item in value]
            return value if isinstance(value, _LISTS) else list(value)

        return read

    def _compile_mapping(self, item: Any) -> Read | None:
        read_item = self.compile(item)
        if read_item is None:
            return None

        def read(value: Any) -> Any:
            if not isinstance(value, Mapping):
                return value
            return {key: read_item(each) for key, each in value.items()}

        return read

    def _compile_record(self, cls: type) -> Read:
        record = self._records.get(cls)
        if record is None:
            # Stored before its fields are compiled, since the type may be recursive.
            record = self._records[cls] = _Record(cls)
            record.fields = {name: self.compile(hint) for name, hint in _field_hints(cls).items()}
        return record.read


class _Record:
    """The rule for a type with declared fields, read from mappings and from objects."""

    __slots__ = ("_cls", "_is_model", "_is_typed_dict", "fields")

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self._is_model = hints.is_model(cls)
        self._is_typed_dict = hints.is_typed_dict(cls)
        self.fields: dict[str, Read | None] = {}

    def read(self, value: Any) -> Any:
        if isinstance(value, _SCALARS) or (
            not self._is_typed_dict and isinstance(value, self._cls)
        ):
            return value
        if isinstance(value, Mapping):
            return {
                name: read(each) if (read := self.fields.get(name)) is not None else each
                for name, each in value.items()
            }
        if not self._is_model:
            return {
                name: each for name in self.fields if (each := self.get(value, name)) is not _NO
            }
        if all(read in (None, _read_text) for read in self.fields.values()):
            return value  # pydantic reads the attributes itself
        return _View(value, self)

    def get(self, value: Any, name: str) -> Any:
        """Return a prepared field of an object; `_NO` if it has none."""
        member = getattr(value, name, _NO)
        read = self.fields.get(name)
        return member if read is None or member is _NO else read(member)


_NO: Any = object()


class _View:
    """An object whose declared attributes are prepared when pydantic reads them."""

    def __init__(self, value: Any, record: _Record) -> None:
        self.__value, self.__record = value, record

    def __getattr__(self, name: str) -> Any:
        member = self.__record.get(self.__value, name)
        if member is _NO:
            raise AttributeError(name)
        return member


def _field_hints(cls: Any) -> dict[str, Any]:
    if hints.is_model(cls):
        return {name: field.annotation for name, field in cls.model_fields.items()}
    known = get_type_hints(cls)
    if hints.is_typed_dict(cls):
        return known
    return {field.name: known[field.name] for field in dataclasses.fields(cls) if field.init}
