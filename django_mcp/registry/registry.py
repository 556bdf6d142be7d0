"""Registry: the entries of one server, in order of registration.

Each change replaces a mapping by a new one, so an iteration sees a single state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

from django_mcp.registry.arguments import Handler
from django_mcp.registry.entries import (
    Entry,
    PromptEntry,
    ResourceEntry,
    TemplateEntry,
    ToolEntry,
)
from django_mcp.registry.problems import RegistrationError

__all__ = ["EntryKey", "Kind", "Registry"]

Kind: TypeAlias = Literal["tools", "resources", "prompts"]
"""What a change concerns; templates count as resources."""

V = TypeVar("V")

EntryKey: TypeAlias = tuple[str, str]
"""A mapping of a registry, and the key in it: `("tools", "find_orders")`."""

_KINDS: Mapping[str, Kind] = MappingProxyType(
    {"tools": "tools", "resources": "resources", "templates": "resources", "prompts": "prompts"}
)


class Registry:
    """The entries of one server. May be read and changed from any thread.

    A disabled entry stays registered but is in none of the mappings, so it is unknown to clients.

    Attributes:
        tools, prompts: entries by name.
        resources: entries by URI.
        templates: entries by the text of their URI template.
        version: counts the changes.
        disabled: the disabled entries, registered or not.
    """

    def __init__(self) -> None:
        self.tools: Mapping[str, ToolEntry] = _frozen({})
        self.resources: Mapping[str, ResourceEntry] = _frozen({})
        self.templates: Mapping[str, TemplateEntry] = _frozen({})
        self.prompts: Mapping[str, PromptEntry] = _frozen({})
        self.version = 0
        self.disabled: frozenset[EntryKey] = frozenset()
        self._registered: dict[str, Mapping[str, Entry]] = {each: _frozen({}) for each in _KINDS}
        self.completion_handler: Handler | None = None
        self._completers: Mapping[tuple[str, str, str], Handler] = _frozen({})
        self._callbacks: tuple[Callable[[Kind], Any], ...] = ()
        self._lock = threading.RLock()

    # -- adding

    def add_tool(self, entry: ToolEntry) -> None:
        """Add a tool; raises `RegistrationError` if there is one with that name."""
        self._add("tools", entry.name, entry, "tool")

    def add_resource(self, entry: ResourceEntry) -> None:
        """Add a resource; raises `RegistrationError` if there is one at that URI."""
        self._add("resources", entry.uri, entry, "resource")

    def add_template(self, entry: TemplateEntry) -> None:
        """Add a template; raises `RegistrationError` if there is one with that text."""
        self._add("templates", entry.template.text, entry, "resource template")

    def add_prompt(self, entry: PromptEntry) -> None:
        """Add a prompt; raises `RegistrationError` if there is one with that name."""
        self._add("prompts", entry.name, entry, "prompt")

    def _add(self, attribute: str, key: str, entry: Entry, kind: str) -> None:
        with self._lock:
            registered = self._registered[attribute]
            other = registered.get(key)
            if other is not None:
                raise RegistrationError(
                    f"{entry.source}: there is a {kind} {key!r} already, by {other.source}. "
                    f"Choose another one, or remove the first."
                )
            is_changed = self._show(attribute, {**registered, key: entry})
        if is_changed:
            self._notify(_KINDS[attribute])

    def add_completer(
        self, entry: PromptEntry | TemplateEntry, argument: str, handler: Handler
    ) -> None:
        """Add the completer of an argument; raises `RegistrationError` if there is one already."""
        key = _completer_key(entry, argument)
        with self._lock:
            other = self._completers.get(key)
            if other is not None:
                raise RegistrationError(
                    f"{handler.source}: {argument!r} of {key[1]!r} is completed by "
                    f"{other.source} already. Remove one of them."
                )
            self._completers = _frozen({**self._completers, key: handler})
            self.version += 1

    def set_completion_handler(self, handler: Handler | None) -> None:
        """Set the completer of all arguments without one of their own; None removes it."""
        with self._lock:
            self.completion_handler = handler
            self.version += 1

    # -- removing

    def remove_tool(self, name: str) -> bool:
        """Remove a tool and return whether there was one."""
        return self._remove("tools", name)

    def remove_resource(self, uri: str) -> bool:
        """Remove a resource and return whether there was one."""
        return self._remove("resources", uri)

    def remove_template(self, uri_template: str) -> bool:
        """Remove a template and its completers, and return whether there was one."""
        return self._remove("templates", uri_template)

    def remove_prompt(self, name: str) -> bool:
        """Remove a prompt and its completers, and return whether there was one."""
        return self._remove("prompts", name)

    def _remove(self, attribute: str, key: str) -> bool:
        with self._lock:
            registered = self._registered[attribute]
            entry = registered.get(key)
            if entry is None:
                return False
            if isinstance(entry, PromptEntry | TemplateEntry):
                self._drop_completers(entry)
            others = {each: found for each, found in registered.items() if each != key}
            is_changed = self._show(attribute, others)
        return self._notify(_KINDS[attribute]) if is_changed else True

    def _show(self, attribute: str, registered: dict[str, Entry]) -> bool:
        """Update the mapping of visible entries, and return whether it changed."""
        self._registered[attribute] = _frozen(registered)
        before: Mapping[str, Entry] = getattr(self, attribute)
        shown = {
            key: entry for key, entry in registered.items() if (attribute, key) not in self.disabled
        }
        if shown.keys() == before.keys():
            return False
        setattr(self, attribute, _frozen(shown))
        self.version += 1
        return True

    def _drop_completers(self, entry: PromptEntry | TemplateEntry) -> None:
        of_entry = _completer_key(entry, "")[:2]
        self._completers = _frozen(
            {key: handler for key, handler in self._completers.items() if key[:2] != of_entry}
        )

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
                if self._show(attribute, dict(self._registered[attribute]))
            ]
        for kind in dict.fromkeys(changed):
            self._notify(kind)

    def registered(self, attribute: str) -> Mapping[str, Entry]:
        """Return all entries of one of the mappings, including disabled ones."""
        return self._registered[attribute]

    # -- finding

    def find_template(self, uri: str) -> tuple[TemplateEntry, dict[str, Any]] | None:
        """Return the first template that matches a URI, with the variables, or None."""
        for entry in self.templates.values():
            variables = entry.match(uri)
            if variables is not None:
                return entry, variables
        return None

    def completer(self, entry: PromptEntry | TemplateEntry, argument: str) -> Handler | None:
        """Return the completer of an argument, or None.

        It is the one registered for the argument, else that of the choices of its type, else the one
        for all arguments.
        """
        own = self._completers.get(_completer_key(entry, argument))
        return own or entry.completers.get(argument) or self.completion_handler

    @property
    def has_completers(self) -> bool:
        """Whether any argument can be completed."""
        return bool(
            self._completers
            or self.completion_handler is not None
            or any(entry.completers for entry in self.prompts.values())
            or any(entry.completers for entry in self.templates.values())
        )

    def entries(self) -> Iterator[Entry]:
        """Yield every entry: tools, resources, templates and prompts."""
        yield from self.tools.values()
        yield from self.resources.values()
        yield from self.templates.values()
        yield from self.prompts.values()

    def completion_handlers(self) -> Iterator[Handler]:
        """Yield the completers that were registered for one argument."""
        yield from self._completers.values()

    # -- watching

    def on_change(self, callback: Callable[[Kind], Any]) -> None:
        """Call a function with the kind after each change, in the thread that made it."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

    def _notify(self, kind: Kind) -> bool:
        for callback in self._callbacks:
            callback(kind)
        return True


def _completer_key(entry: PromptEntry | TemplateEntry, argument: str) -> tuple[str, str, str]:
    if isinstance(entry, PromptEntry):
        return ("ref/prompt", entry.name, argument)
    return ("ref/resource", entry.template.text, argument)


def _frozen(entries: dict[Any, V]) -> Mapping[Any, V]:
    return MappingProxyType(entries)
