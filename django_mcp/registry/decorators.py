"""Registration of the functions of a site as a server's tools, resources and prompts.

The decorators return the function unchanged, so it can still be called and tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack, overload

from django_mcp.protocol.json import JSONObject
from django_mcp.registry.access import Permission, read_access
from django_mcp.registry.build_resources_and_prompts import (
    GLOBAL_COMPLETER_PARAMETERS,
    build_completer,
    build_prompt,
    build_resource,
    build_template,
)
from django_mcp.registry.build_tools import build_tool
from django_mcp.registry.building import Providers, check_options
from django_mcp.registry.entries import (
    PromptArgument,
    PromptEntry,
    ResourceEntry,
    TemplateEntry,
    ToolEntry,
)
from django_mcp.registry.options import CommonOptions, ResourceOptions, TemplateOptions, ToolOptions
from django_mcp.registry.problems import RegistrationError, describe_source, did_you_mean
from django_mcp.registry.registry import Registry
from django_mcp.registry.returns import ResultConverter
from django_mcp.registry.signatures import F, Provider


class Registration:
    """The part of a server that functions are registered on.

    Every method that registers raises `RegistrationError` if something is wrong with the function
    or its options; the text names the function and the remedy.
    """

    _registry: Registry
    _converter: ResultConverter

    @property
    def registry(self) -> Registry:
        """What is registered."""
        return self._registry

    def _find_provider(self, annotation: Any) -> Provider | None:
        """Return the provider of a parameter with this annotation; None for ordinary arguments."""
        return None

    def _provide_user(self, ctx: Any) -> Any:
        """Return the user of a request for the checks of arguments."""
        return ctx.principal

    def _read_extension(self, identifier: str, value: Any) -> Any:
        """Return what is kept of an option for an extension; raise `ValueError` if it is wrong."""
        return value

    def _complete_tool(self, tool: ToolEntry) -> ToolEntry:
        """Return the tool that is registered in place of one with options for extensions."""
        return tool

    # -- decorators

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self, name: str | None = None, /, **options: Unpack[ToolOptions]
    ) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
        """Register a function as a tool: `@tool`, `@tool("name")` or `@tool(read_only=True)`; see `ToolOptions`."""
        if isinstance(function, str):
            _set_name("tool", function, options)
            function = None
        keep = _keep(lambda each: self.register_tool(each, **options))
        return keep if function is None else keep(function)

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function that returns a resource; see `ResourceOptions`.

        A URI with braces is a template, whose variables are the parameters:
        `@resource("order://{pk}")`; see `protocol/uri_template.py` for its forms.
        """
        if not isinstance(uri, str):
            raise RegistrationError(
                f"{describe_source(uri)}: a resource needs a URI. "
                f"Write @resource('order://{{pk}}')."
            )
        return _keep(lambda each: self.register_resource(uri, each, **options))

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self, name: str | None = None, /, **options: Unpack[CommonOptions]
    ) -> Callable[[F], F]: ...
    def prompt(self, function: Any = None, /, **options: Unpack[CommonOptions]) -> Any:
        """Register a function as a prompt: `@prompt`, `@prompt("name")` or `@prompt(title=...)`; see `CommonOptions`."""
        if isinstance(function, str):
            _set_name("prompt", function, options)
            function = None
        keep = _keep(lambda each: self.register_prompt(each, **options))
        return keep if function is None else keep(function)

    def completion(
        self,
        target: Callable[..., Any] | str,
        argument: str,
        *,
        permission: Permission = None,
        scopes: str | Sequence[str] | None = None,
    ) -> Callable[[F], F]:
        """Register a function that completes an argument of a prompt or a resource template.

        Args:
            target: the prompt's or template's function, the prompt's name, or the URI template.
            argument: the name of the argument.
            permission: needed in addition to those of the prompt or template; users without it
                get no values.
            scopes: the same for OAuth scopes; clients without them get an error.

        The function may take `value`, the text so far, and `arguments`, a dict of the others, and
        returns strings, best first, or a `Completion`.
        """

        def register(function: F) -> F:
            access = read_access(describe_source(function), permission=permission, scopes=scopes)
            handler = build_completer(function, self._providers(), access=access)
            entry = self._completed(target, handler.source)
            if argument not in entry.argument_names:
                raise RegistrationError(
                    f"{handler.source}: {entry.name!r} has no argument {argument!r}. "
                    f"It has {', '.join(entry.argument_names) or 'none'}."
                )
            self._registry.add_completer(entry, argument, handler)
            return function

        return register

    # -- the same as methods, which can be called while the server runs

    def register_tool(
        self, handler: Callable[..., Any], **options: Unpack[ToolOptions]
    ) -> ToolEntry:
        """Register a function as a tool, and return its entry; see `ToolOptions`."""
        check_options(handler, "tool", options, ToolOptions)
        entry = self._complete_tool(build_tool(handler, self._providers(), **options))
        self._registry.add(entry)
        return entry

    def register_resource(
        self, uri: str, handler: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> ResourceEntry | TemplateEntry:
        """Register a function as the resource at a URI, or as those at all URIs of a template.

        See `resource`.
        """
        is_template = "{" in uri
        kind = "resource template" if is_template else "resource"
        check_options(handler, kind, options, TemplateOptions if is_template else ResourceOptions)
        build: Any = build_template if is_template else build_resource
        entry: ResourceEntry | TemplateEntry = build(handler, self._providers(), uri, **options)
        self._registry.add(entry)
        return entry

    def register_prompt(
        self,
        handler: Callable[..., Any],
        *,
        arguments: Sequence[PromptArgument] | None = None,
        **options: Unpack[CommonOptions],
    ) -> PromptEntry:
        """Register a function as a prompt, and return its entry; see `CommonOptions`.

        If the prompt's arguments are given, and not the function's parameters, the function gets all
        of them as one dict of strings.
        """
        check_options(handler, "prompt", options, CommonOptions)
        entry = build_prompt(handler, self._providers(), arguments=arguments, **options)
        self._registry.add(entry)
        return entry

    def set_completion_handler(self, handler: Callable[..., Any] | None) -> None:
        """Set a function that completes every argument without a completer of its own.

        Args:
            handler: may take `ref` (as the client sent it), `argument` (its name), `value` and
                `arguments`; None removes it.
        """
        completer = None
        if handler is not None:
            completer = build_completer(handler, self._providers(), GLOBAL_COMPLETER_PARAMETERS)
        self._registry.set_completion_handler(completer)

    def remove_tool(self, name: str) -> bool:
        """Remove a tool, and return whether there was one."""
        return self._registry.remove("tools", name)

    def remove_resource(self, uri: str) -> bool:
        """Remove a resource or a resource template, and return whether there was one."""
        return self._registry.remove("templates" if "{" in uri else "resources", uri)

    def remove_prompt(self, name: str) -> bool:
        """Remove a prompt, and return whether there was one."""
        return self._registry.remove("prompts", name)

    def tool_input_schema(self, name: str) -> JSONObject:
        """Return the input schema of a tool as published; raises KeyError if there is no such tool."""
        entry = self.registry.tools[name]
        return dict(entry.published(entry.input_schema))

    # -- internals

    def _providers(self) -> Providers:
        return Providers(
            injectables=self._find_provider,
            converter=self._converter,
            provide_user=self._provide_user,
            read_extension=self._read_extension,
        )

    def _completed(
        self, target: Callable[..., Any] | str, source: str
    ) -> PromptEntry | TemplateEntry:
        """Return the prompt or template that a completer is for."""
        entries: list[PromptEntry | TemplateEntry]
        entries = [*self._registry.prompts.values(), *self._registry.templates.values()]
        known = [entry.key for entry in entries]
        entries = [entry for entry in entries if target in (entry.key, entry.handler.origin)]
        if len(entries) != 1:
            wanted = repr(target) if isinstance(target, str) else describe_source(target)
            problem = "is neither a prompt nor a resource template of this server"
            if entries:
                problem = "is several of them; say which by its name or URI template"
            remedy = did_you_mean(target, known) if isinstance(target, str) and not entries else ""
            raise RegistrationError(
                f"{source}: {wanted} {problem}.{remedy or ' Register the prompt or template first.'}"
            )
        return entries[0]


def _set_name(kind: str, name: str, options: CommonOptions) -> None:
    """Set the option of a name that a decorator was given by position."""
    if "name" in options:
        raise RegistrationError(f"@{kind}({name!r}, name={options['name']!r}): give one name.")
    options["name"] = name


def _keep(register: Callable[[Callable[..., Any]], object]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        register(function)
        return function

    return decorate
