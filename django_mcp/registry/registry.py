"""Registry: what is registered on one server. Entries are in order of registration.

Each change replaces a mapping by a new one, so an iteration sees a single state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import CacheHint
from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import (
    Entry,
    EntryMapping,
    PromptEntry,
    ResourceEntry,
    TemplateEntry,
    ToolEntry,
)
from django_mcp.registry.problems import RegistrationError

ListKind: TypeAlias = Literal["tools", "resources", "prompts"]
"""What a change concerns; templates count as resources."""

EntryKey: TypeAlias = tuple[str, str]
"""A mapping of a registry, and the key in it: `("tools", "find_orders")`."""

_KINDS: Mapping[str, ListKind] = MappingProxyType(
    {"tools": "tools", "resources": "resources", "templates": "resources", "prompts": "prompts"}
)


class Registry:
    """What is registered on one server. May be read and changed from any thread.

    A disabled entry stays registered but is in none of the mappings, so it is unknown to clients.

    Attributes:
        tools, prompts: entries by name.
        resources: entries by URI.
        templates: entries by the text of their URI template.
        version: counts the changes.
        disabled: the disabled entries, registered or not.
        registered: all entries, including disabled ones, by the name of their mapping.
        completers: those that were registered for one argument, by mapping, key and argument.
    """

    def __init__(self) -> None:
        self.tools: Mapping[str, ToolEntry] = MappingProxyType({})
        self.resources: Mapping[str, ResourceEntry] = MappingProxyType({})
        self.templates: Mapping[str, TemplateEntry] = MappingProxyType({})
        self.prompts: Mapping[str, PromptEntry] = MappingProxyType({})
        self.version = 0
        self.disabled: frozenset[EntryKey] = frozenset()
        self.registered: dict[str, Mapping[str, Entry]] = {
            kind: MappingProxyType({}) for kind in _KINDS
        }
        self.advertised: dict[str, JSONObject] = {}
        """Settings of the extensions that the site advertises and has no class for, by identifier."""
        self.experimental: dict[str, JSONObject] = {}
        """Settings of the capabilities outside of the specification, by name."""
        self.list_hints: dict[str, CacheHint] = {}
        """How long clients may cache a list, by its method."""
        self.error_handlers: tuple[Callable[[BaseException, Any, str | None], Any], ...] = ()
        """Each takes the exception, the context, and the reference in the log; may be asynchronous."""
        self.completion_handler: Handler | None = None
        self.completers: Mapping[tuple[str, str, str], Handler] = MappingProxyType({})
        self._callbacks: tuple[Callable[[ListKind], Any], ...] = ()
        self._lock = threading.RLock()

    # -- adding

    def add(self, entry: Entry) -> None:
        """Add an entry; raises `RegistrationError` if there is one of its kind with that key."""
        with self._lock:
            registered = self.registered[entry.kind.mapping]
            other = registered.get(entry.key)
            if other is not None:
                raise RegistrationError(
                    f"{entry.source}: there is a {entry.kind.word} {entry.key!r} already, by "
                    f"{other.source}. Choose another one, or remove the first."
                )
            is_changed = self._show(entry.kind.mapping, {**registered, entry.key: entry})
        if is_changed:
            self._notify(_KINDS[entry.kind.mapping])

    def add_completer(
        self, entry: PromptEntry | TemplateEntry, argument: str, handler: Handler
    ) -> None:
        """Add the completer of an argument; raises `RegistrationError` if there is one already."""
        key = (entry.kind.mapping, entry.key, argument)
        with self._lock:
            other = self.completers.get(key)
            if other is not None:
                raise RegistrationError(
                    f"{handler.source}: {argument!r} of {key[1]!r} is completed by "
                    f"{other.source} already. Remove one of them."
                )
            self.completers = MappingProxyType({**self.completers, key: handler})
            self.version += 1

    def set_completion_handler(self, handler: Handler | None) -> None:
        """Set the completer of all arguments without one of their own; None removes it."""
        with self._lock:
            self.completion_handler = handler
            self.version += 1

    # -- removing

    def remove(self, mapping: EntryMapping, key: str) -> bool:
        """Remove an entry, with its completers, and return whether there was one."""
        with self._lock:
            registered = self.registered[mapping]
            if key not in registered:
                return False
            kept = {
                each: handler
                for each, handler in self.completers.items()
                if each[:2] != (mapping, key)
            }
            self.completers = MappingProxyType(kept)
            others = {each: found for each, found in registered.items() if each != key}
            is_changed = self._show(mapping, others)
        if is_changed:
            self._notify(_KINDS[mapping])
        return True

    def _show(self, attribute: str, registered: dict[str, Entry]) -> bool:
        """Update the mapping of visible entries, and return whether it changed."""
        self.registered[attribute] = MappingProxyType(registered)
        before: Mapping[str, Entry] = getattr(self, attribute)
        shown = registered
        if self.disabled:
            shown = {
                key: entry
                for key, entry in registered.items()
                if (attribute, key) not in self.disabled
                and not (
                    isinstance(entry, ToolEntry) and (attribute, entry.used_with) in self.disabled
                )
            }
        if shown.keys() == before.keys():
            return False
        setattr(self, attribute, MappingProxyType(shown))
        self.version += 1
        return True

    # -- disabling

    def set_disabled(self, disabled: frozenset[EntryKey]) -> None:
        """Set the disabled entries; all others become visible again."""
        with self._lock:
            if disabled == self.disabled:
                return
            self.disabled = disabled
            changed = [
                kind
                for attribute, kind in _KINDS.items()
                if self._show(attribute, dict(self.registered[attribute]))
            ]
        for kind in dict.fromkeys(changed):
            self._notify(kind)

    # -- finding

    def completer(self, entry: PromptEntry | TemplateEntry, argument: str) -> Handler | None:
        """Return the completer of an argument, or None.

        It is the one registered for the argument, else that of the choices of its type, else the one
        for all arguments.
        """
        own = self.completers.get((entry.kind.mapping, entry.key, argument))
        return own or entry.completers.get(argument) or self.completion_handler

    @property
    def has_completers(self) -> bool:
        """Whether any argument can be completed."""
        return bool(
            self.completers
            or self.completion_handler is not None
            or any(entry.completers for entry in self.prompts.values())
            or any(entry.completers for entry in self.templates.values())
        )

    def entries(self) -> Iterator[Entry]:
        """Yield every entry: tools, resources, templates and prompts."""
        for entries in (self.tools, self.resources, self.templates, self.prompts):
            yield from entries.values()

    # -- watching

    def on_change(self, callback: Callable[[ListKind], Any]) -> None:
        """Call a function with the kind after each change, in the thread that made it."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

    def _notify(self, kind: ListKind) -> None:
        for callback in self._callbacks:
            callback(kind)
