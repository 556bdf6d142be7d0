"""Registration of the functions of a site as a server's tools, resources and prompts.

The decorators return the function unchanged, so it can still be called and tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack, overload

from django_mcp.protocol.content import Annotations, Icon
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import CacheHint
from django_mcp.registry.access import Permission, read_access
from django_mcp.registry.atomic import Atomic
from django_mcp.registry.build_completers import GLOBAL_COMPLETER_PARAMETERS, build_completer
from django_mcp.registry.build_prompts import build_prompt
from django_mcp.registry.build_resources import build_resource, build_template
from django_mcp.registry.build_tools import build_tool
from django_mcp.registry.building import Surroundings
from django_mcp.registry.entries import (
    PromptArgument,
    PromptEntry,
    ResourceEntry,
    TemplateEntry,
    ToolEntry,
)
from django_mcp.registry.injection import Provider
from django_mcp.registry.problems import RegistrationError, check_names, describe_source
from django_mcp.registry.registry import Registry
from django_mcp.registry.returns import ResultConverter

__all__ = ["Registration"]

F = TypeVar("F", bound=Callable[..., Any])


class CommonOptions(TypedDict, total=False):
    """Options of every entry.

    name: for programs; by default the function's.
    title, description: for people and models; may be lazy. By default the description is the
        docstring's, without its sections on parameters and the result.
    icons: `Icon`s, or their `https:` URLs.
    meta: `_meta` as listed.
    permission: a permission, several that are all needed, or a function of the user; the entry is
        hidden from users without them. By default the server's; `()`: none.
    scopes: OAuth scopes that a token needs all of; they do not hide the entry. By default the
        server's; `()`: none.
    check: a function of the user and the arguments of a call; if it returns false, the client gets
        the same error as for something that does not exist.
    """

    name: str | None
    title: Any
    description: Any
    icons: Sequence[Icon | str]
    meta: Mapping[str, Any] | None
    permission: Permission
    scopes: str | Sequence[str] | None
    check: Callable[..., Any] | None


class ToolOptions(CommonOptions, total=False):
    """Options of a tool.

    input_schema: a JSON Schema, published unchanged; by default made from the parameters. The
        function takes either all arguments as one dict or each property as a parameter.
    output_schema: a JSON Schema or a type; by default made from the return annotation if that
        declares data. None: none.
    read_only, destructive, idempotent, open_world: hints for clients; not sent by default.
    timeout: seconds a call may take; by default the server's.
    throttle: how often each principal may call it, such as `"10/m"`.
    required_client_capabilities: capabilities that a client has to declare.
    validate_output: check results against the output schema; by default the server's.
    task: whether a call may continue after its request as a task that the client polls:
        `"never"` (the default), `"allowed"`, `"required"`, or `"auto"`: if it takes long.
    atomic: the transaction that a synchronous tool runs in. True: on the default database. False:
        none. An alias, or several: on these databases. By default none for a tool with
        `read_only=True`, and the server's for others.
    record_arguments: keep the arguments in the record of calls, if there is one; by default
        only the type of each value.
    """

    input_schema: JSONObject | None
    output_schema: Any
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    timeout: float | None
    throttle: str | None
    required_client_capabilities: JSONObject | None
    validate_output: bool | None
    task: str
    atomic: Atomic | None
    record_arguments: bool


class TemplateOptions(CommonOptions, total=False):
    """Options of a resource template.

    mime_type: of the contents; by default from the return annotation, and then from the value.
    annotations: the intended audience, and the priority.
    cache: how long a client may cache the contents, if the revision supports it.
    """

    mime_type: str | None
    annotations: Annotations | None
    cache: CacheHint | None


class ResourceOptions(TemplateOptions, total=False):
    """Options of a resource; `size` is in bytes."""

    size: int | None


class Registration:
    """The part of a server that functions are registered on.

    Every method that registers raises `RegistrationError` if something is wrong with the function
    or its options; the text names the function and the remedy.
    """

    registry: Registry
    converter: ResultConverter

    def injectables(self, annotation: Any) -> Provider | None:
        """Return the provider of a parameter with this annotation; None for ordinary arguments."""
        return None

    def provide_user(self, ctx: Any) -> Any:
        """Return the user of a request for the checks of arguments."""
        return ctx.principal

    # -- decorators

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self, function: None = None, /, **options: Unpack[ToolOptions]
    ) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
        """Register a function as a tool: `@tool`, or `@tool(read_only=True)`; see `ToolOptions`."""
        if function is not None:
            self.register_tool(function, **options)
            return function
        return _keep(lambda each: self.register_tool(each, **options))

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function that returns a resource; see `ResourceOptions`.

        A URI with braces is a template (RFC 6570), whose variables are the parameters:
        `@resource("order://{pk}")`.
        """
        if not isinstance(uri, str):
            raise RegistrationError(
                f"{describe_source(uri)}: a resource needs a URI. "
                f"Write @resource('order://{{pk}}')."
            )
        given: dict[str, Any] = {**options}
        if "{" in uri:
            return _keep(lambda each: self.register_template(uri, each, **given))
        return _keep(lambda each: self.register_resource(uri, each, **given))

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self, function: None = None, /, **options: Unpack[CommonOptions]
    ) -> Callable[[F], F]: ...
    def prompt(self, function: Any = None, /, **options: Unpack[CommonOptions]) -> Any:
        """Register a function as a prompt: `@prompt`, or `@prompt(title=...)`; see `CommonOptions`."""
        if function is not None:
            self.register_prompt(function, **options)
            return function
        return _keep(lambda each: self.register_prompt(each, **options))

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
            handler = build_completer(function, self._surroundings(), access=access)
            entry = self._completed(target, handler.source)
            if argument not in entry.argument_names:
                raise RegistrationError(
                    f"{handler.source}: {entry.name!r} has no argument {argument!r}. "
                    f"It has {', '.join(entry.argument_names) or 'none'}."
                )
            self.registry.add_completer(entry, argument, handler)
            return function

        return register

    # -- the same as methods, which can be called while the server runs

    def register_tool(
        self, handler: Callable[..., Any], **options: Unpack[ToolOptions]
    ) -> ToolEntry:
        """Register a function as a tool, and return its entry; see `ToolOptions`."""
        _check_options(handler, "tool", options, ToolOptions)
        entry = build_tool(handler, self._surroundings(), **options)
        self.registry.add_tool(entry)
        return entry

    def register_resource(
        self, uri: str, handler: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> ResourceEntry:
        """Register a function as the resource at a URI; see `ResourceOptions`."""
        _check_options(handler, "resource", options, ResourceOptions)
        entry = build_resource(handler, self._surroundings(), uri, **options)
        self.registry.add_resource(entry)
        return entry

    def register_template(
        self, uri_template: str, handler: Callable[..., Any], **options: Unpack[TemplateOptions]
    ) -> TemplateEntry:
        """Register a function as the resources at all URIs of a template; see `TemplateOptions`."""
        _check_options(handler, "resource template", options, TemplateOptions)
        entry = build_template(handler, self._surroundings(), uri_template, **options)
        self.registry.add_template(entry)
        return entry

    def register_prompt(
        self,
        handler: Callable[..., Any],
        *,
        arguments: Sequence[PromptArgument] | None = None,
        **options: Unpack[CommonOptions],
    ) -> PromptEntry:
        """Register a function as a prompt, and return its entry; see `CommonOptions`.

        Args:
            handler: the function.
            arguments: the prompt's arguments, if they are not the function's parameters; the function
                then gets all of them as one dict of strings.
            options: see `CommonOptions`.
        """
        _check_options(handler, "prompt", options, CommonOptions)
        entry = build_prompt(handler, self._surroundings(), arguments=arguments, **options)
        self.registry.add_prompt(entry)
        return entry

    def set_completion_handler(self, handler: Callable[..., Any] | None) -> None:
        """Set a function that completes every argument without a completer of its own.

        Args:
            handler: may take `ref` (as the client sent it), `argument` (its name), `value` and
                `arguments`; None removes it.
        """
        if handler is None:
            self.registry.set_completion_handler(None)
            return
        completer = build_completer(handler, self._surroundings(), GLOBAL_COMPLETER_PARAMETERS)
        self.registry.set_completion_handler(completer)

    def remove_tool(self, name: str) -> bool:
        """Remove a tool, and return whether there was one."""
        return self.registry.remove_tool(name)

    def remove_resource(self, uri: str) -> bool:
        """Remove a resource, and return whether there was one."""
        return self.registry.remove_resource(uri)

    def remove_template(self, uri_template: str) -> bool:
        """Remove a resource template, and return whether there was one."""
        return self.registry.remove_template(uri_template)

    def remove_prompt(self, name: str) -> bool:
        """Remove a prompt, and return whether there was one."""
        return self.registry.remove_prompt(name)

    def tool_input_schema(self, name: str) -> JSONObject:
        """Return the input schema of a tool as published; raises KeyError if there is no such tool."""
        entry = self.registry.tools[name]
        return dict(entry.published(entry.input_schema))

    # -- internals

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            injectables=self.injectables,
            converter=self.converter,
            provide_user=self.provide_user,
        )

    def _completed(
        self, target: Callable[..., Any] | str, source: str
    ) -> PromptEntry | TemplateEntry:
        """Return the prompt or template that a completer is for."""
        registry = self.registry
        entries: list[PromptEntry | TemplateEntry]
        if isinstance(target, str):
            named = registry.prompts.get(target) or registry.templates.get(target)
            entries = [] if named is None else [named]
            wanted = repr(target)
        else:
            entries = [*registry.prompts.values(), *registry.templates.values()]
            entries = [each for each in entries if each.handler.origin == target]
            wanted = describe_source(target)
        if len(entries) != 1:
            problem = "is neither a prompt nor a resource template of this server"
            if entries:
                problem = "is several of them; say which by its name or URI template"
            raise RegistrationError(
                f"{source}: {wanted} {problem}. Register the prompt or template first."
            )
        return entries[0]


def _keep(register: Callable[[Callable[..., Any]], object]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        register(function)
        return function

    return decorate


def _check_options(handler: Any, kind: str, options: Iterable[str], known: Any) -> None:
    check_names(options, known.__annotations__, f"{describe_source(handler)}: a {kind}")
