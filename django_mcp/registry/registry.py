"""Registry: what one server offers, in order of registration, changing while it is read.

Each change replaces a mapping by a new one, so whoever iterates one sees one state of it.
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

__all__ = ["Kind", "Registry"]

Kind: TypeAlias = Literal["tools", "resources", "prompts"]
"""What a change is about; templates count as resources."""

E = TypeVar("E", bound=Entry)
V = TypeVar("V")


class Registry:
    """The entries of one server. May be read and changed from any thread.

    Attributes:
        tools, prompts: entries by name.
        resources: entries by URI.
        templates: entries by the text of their URI template.
        version: counts the changes.
    """

    def __init__(self) -> None:
        self.tools: Mapping[str, ToolEntry] = _frozen({})
        self.resources: Mapping[str, ResourceEntry] = _frozen({})
        self.templates: Mapping[str, TemplateEntry] = _frozen({})
        self.prompts: Mapping[str, PromptEntry] = _frozen({})
        self.version = 0
        self.completion_handler: Handler | None = None
        self._completers: Mapping[tuple[str, str, str], Handler] = _frozen({})
        self._callbacks: tuple[Callable[[Kind], Any], ...] = ()
        self._lock = threading.RLock()

    # -- adding

    def add_tool(self, entry: ToolEntry) -> None:
        """Add a tool. Raises `RegistrationError` when there is one of that name."""
        with self._lock:
            self.tools = _with(self.tools, entry.name, entry, "tool")
            self.version += 1
        self._tell("tools")

    def add_resource(self, entry: ResourceEntry) -> None:
        """Add a resource. Raises `RegistrationError` when there is one at that URI."""
        with self._lock:
            self.resources = _with(self.resources, entry.uri, entry, "resource")
            self.version += 1
        self._tell("resources")

    def add_template(self, entry: TemplateEntry) -> None:
        """Add a template. Raises `RegistrationError` when there is one of that text."""
        with self._lock:
            self.templates = _with(self.templates, entry.template.text, entry, "resource template")
            self.version += 1
        self._tell("resources")

    def add_prompt(self, entry: PromptEntry) -> None:
        """Add a prompt. Raises `RegistrationError` when there is one of that name."""
        with self._lock:
            self.prompts = _with(self.prompts, entry.name, entry, "prompt")
            self.version += 1
        self._tell("prompts")

    def add_completer(
        self, entry: PromptEntry | TemplateEntry, argument: str, handler: Handler
    ) -> None:
        """Add what completes one argument. Raises `RegistrationError` when there is one already."""
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
        """Set what completes every argument that has no completer of its own; None: nothing."""
        with self._lock:
            self.completion_handler = handler
            self.version += 1

    # -- removing

    def remove_tool(self, name: str) -> bool:
        """Remove a tool and tell whether there was one."""
        with self._lock:
            found = name in self.tools
            if found:
                self.tools = _without(self.tools, name)
                self.version += 1
        return self._tell("tools") if found else False

    def remove_resource(self, uri: str) -> bool:
        """Remove a resource and tell whether there was one."""
        with self._lock:
            found = uri in self.resources
            if found:
                self.resources = _without(self.resources, uri)
                self.version += 1
        return self._tell("resources") if found else False

    def remove_template(self, uri_template: str) -> bool:
        """Remove a template and what completes it; tell whether there was one."""
        with self._lock:
            entry = self.templates.get(uri_template)
            if entry is not None:
                self.templates = _without(self.templates, uri_template)
                self._drop_completers(entry)
                self.version += 1
        return self._tell("resources") if entry is not None else False

    def remove_prompt(self, name: str) -> bool:
        """Remove a prompt and what completes it; tell whether there was one."""
        with self._lock:
            entry = self.prompts.get(name)
            if entry is not None:
                self.prompts = _without(self.prompts, name)
                self._drop_completers(entry)
                self.version += 1
        return self._tell("prompts") if entry is not None else False

    def _drop_completers(self, entry: PromptEntry | TemplateEntry) -> None:
        of_entry = _completer_key(entry, "")[:2]
        self._completers = _frozen(
            {key: handler for key, handler in self._completers.items() if key[:2] != of_entry}
        )

    # -- finding

    def find_template(self, uri: str) -> tuple[TemplateEntry, dict[str, Any]] | None:
        """Return the first template that matches a URI, with the variables, or None."""
        for entry in self.templates.values():
            variables = entry.match(uri)
            if variables is not None:
                return entry, variables
        return None

    def completer(self, entry: PromptEntry | TemplateEntry, argument: str) -> Handler | None:
        """Return what completes an argument, or None.

        What was registered for it comes first, then the choices of its type, then the handler for
        everything.
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
        """Yield what was registered to complete one argument."""
        yield from self._completers.values()

    # -- watching

    def on_change(self, callback: Callable[[Kind], Any]) -> None:
        """Have a function called with the kind after each change, in the thread that made it."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

    def _tell(self, kind: Kind) -> bool:
        for callback in self._callbacks:
            callback(kind)
        return True


def _completer_key(entry: PromptEntry | TemplateEntry, argument: str) -> tuple[str, str, str]:
    if isinstance(entry, PromptEntry):
        return ("ref/prompt", entry.name, argument)
    return ("ref/resource", entry.template.text, argument)


def _frozen(entries: dict[Any, V]) -> Mapping[Any, V]:
    return MappingProxyType(entries)


def _with(entries: Mapping[str, E], key: str, entry: E, kind: str) -> Mapping[str, E]:
    other = entries.get(key)
    if other is not None:
        raise RegistrationError(
            f"{entry.source}: there is a {kind} {key!r} already, by {other.source}. "
            f"Choose another one, or remove the first."
        )
    return _frozen({**entries, key: entry})


def _without(entries: Mapping[str, E], key: str) -> Mapping[str, E]:
    return _frozen({each: entry for each, entry in entries.items() if each != key})
