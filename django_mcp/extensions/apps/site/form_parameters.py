"""Parameters of tools that are forms: what clients send, bound to the form and checked by it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from typing import Annotated, Any, get_origin

from django.db.models import Model
from django.forms import BaseForm, BaseModelForm, FileField

from django_mcp.context import Context
from django_mcp.extensions.apps.core.app import App
from django_mcp.forms import FormProblem, bind_form, check_form, form_schema
from django_mcp.forms.labels import without_labels
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry import hints
from django_mcp.registry.access import ObjectCheck, read_check
from django_mcp.registry.problems import (
    ArgumentErrors,
    Problem,
    RegistrationError,
    describe_source,
    innermost,
)
from django_mcp.registry.signatures import Signature, is_async_callable
from django_mcp.servers import MCPServer

CONTEXT = "form_context"
"""The parameter of the functions of this module by which they get the context."""


@dataclass(kw_only=True)
class FormParameter:
    """A parameter of a tool that is a form.

    Attributes:
        name: of the parameter.
        form: the form class.
        initial: returns what the form starts with; None: nothing but what the class says.
    """

    name: str
    form: type[BaseForm]
    initial: ObjectCheck | None = None

    def make_form(self, ctx: Context, arguments: Mapping[str, Any]) -> BaseForm:
        """Return the form for a caller, without data; `arguments` are those of the tool."""
        made: BaseForm = self._prepare(ctx, arguments)()
        return made

    def bind(self, ctx: Context, arguments: Mapping[str, Any]) -> BaseForm:
        """Return the valid form for what a caller sent; raises `ArgumentErrors`, by field."""
        try:
            form: BaseForm = bind_form(
                self._prepare(ctx, arguments), arguments[self.name], takes_hidden=True
            )
            check_form(form)
        except ArgumentErrors as error:
            place = to_pointer([self.name])
            raise ArgumentErrors(
                [Problem(place + each.pointer, each.message) for each in error.problems]
            ) from None
        return form

    def _prepare(self, ctx: Context, arguments: Mapping[str, Any]) -> Callable[..., Any]:
        given: dict[str, Any] = {"user": ctx.user} if _takes_user(self.form) else {}
        start = None if self.initial is None else self.initial.ask(ctx, arguments)
        if isinstance(start, Model) and issubclass(self.form, BaseModelForm):
            given["instance"] = start
        elif isinstance(start, Mapping):
            given["initial"] = start
        elif start is not None:
            raise TypeError(
                f"initial= of {self.form.__qualname__} returned {type(start).__name__}: return a dict, or the object "
                "that a ModelForm changes"
            )
        return partial(self.form, **given)


def _takes_user(form: type[BaseForm]) -> bool:
    """Return whether a form class wants to know its user: its `__init__` has a parameter of that name."""
    parameter = inspect.signature(form.__init__).parameters.get("user")
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return parameter is not None and parameter.kind in kinds


def take_forms(
    server: MCPServer, function: Callable[..., Any], app: App | None
) -> Callable[..., Any]:
    """Return a function that takes JSON where another takes a form; the other one, if it takes none.

    Args:
        server: gets the tool.
        function: the handler.
        app: with the form that another tool shows, which a parameter has to be annotated with.

    Raises:
        RegistrationError: a form cannot be filled in by a client, or no parameter takes that of `app`.
    """
    if not inspect.isroutine(innermost(function)) or isinstance(function, type):
        return function
    source = describe_source(function)
    known = hints.resolve_hints(function, source)
    parameters = {
        name: FormParameter(name=name, form=hint)
        for name, hint in known.items()
        if name != "return" and _is_form(hints.strip(hint))
    }
    shown = [name for name, each in parameters.items() if app is not None and each.form is app.form]
    if app is not None and len(shown) != 1:
        raise RegistrationError(
            f"{source}: app= has the form {app.form.__qualname__}, and {len(shown) or 'no'} parameters take it. Write "
            f"form: {app.form.__qualname__} as a parameter."
        )
    if not parameters:
        return function
    schemas = {name: _describe(each.form, source) for name, each in parameters.items()}
    made = _wrap(function, parameters)
    made.__annotations__ = {
        **known,
        **{name: _annotate(schema) for name, schema in schemas.items()},
        CONTEXT: Context,
    }
    made.relax_input = partial(_relax, names=tuple(parameters))  # type: ignore[attr-defined]
    if app is not None and app.initial is not None:
        form = parameters[shown[0]]
        form.initial = read_initial(server, app.initial, without(server, made, parameters))
    made.form_parameter = parameters[shown[0]] if shown else None  # type: ignore[attr-defined]
    return made


def read_initial(
    server: MCPServer, initial: Callable[..., Any], signature: Signature
) -> ObjectCheck:
    """Return a function that makes what a form starts with, ready to be asked as a check is."""
    return read_check(
        initial,
        signature,
        is_async_handler=False,
        injectables=server._find_provider,
        provide_user=server._provide_user,
        word="initial",
    )


def without(server: MCPServer, function: Callable[..., Any], names: Mapping[str, Any]) -> Signature:
    """Return the signature of a function without some parameters."""
    from msgspec.structs import replace

    signature = server._providers().read(function)
    left = tuple(each for each in signature.parameters if each.name not in names)
    return replace(signature, parameters=left)


def _is_form(annotation: Any) -> bool:
    return (
        isinstance(annotation, type)
        and get_origin(annotation) is None
        and issubclass(annotation, BaseForm)
    )


def _describe(form: type[BaseForm], source: str) -> JSONObject:
    fields: Mapping[str, Any] = form.base_fields  # type: ignore[attr-defined]
    files = [name for name, field in fields.items() if isinstance(field, FileField)]
    if files:
        raise RegistrationError(
            f"{source}: the field {files[0]!r} of {form.__qualname__} takes a file, which a call cannot carry. Leave it "
            "out of the form."
        )
    try:
        schema: JSONObject = without_labels(form_schema(form, takes_hidden=True))
    except FormProblem as problem:
        raise RegistrationError(
            f"{source}: the form {form.__qualname__} cannot be filled in by a client: {problem}. {problem.hint}"
        ) from problem
    return schema


def _annotate(schema: JSONObject) -> Any:
    from pydantic import WithJsonSchema

    return Annotated[dict[str, Any], WithJsonSchema(schema)]


def _relax(schema: JSONObject, *, names: tuple[str, ...]) -> JSONObject:
    """Return an input schema by which the forms say what is wrong with their fields, which get plain values."""
    forms = {
        name: {
            "type": "object",
            "properties": {
                field: _relax_field(part)
                for field, part in schema["properties"][name].get("properties", {}).items()
            },
        }
        for name in names
    }
    return {**schema, "properties": {**schema["properties"], **forms}}


_PLAIN = {"type": ["string", "number", "boolean", "null"]}


def _relax_field(part: JSONObject) -> JSONObject:
    """Return a schema for any plain value, or list of them, in place of that of a field.

    What has parts inside of parts keeps its schema, and a field of JSON takes anything.
    """
    given = part.get("type", ())
    types = {given} if isinstance(given, str) else set(given)
    if not types and part.keys().isdisjoint({"enum", "anyOf"}):
        return {}
    if types.isdisjoint({"array", "object"}):
        return _PLAIN
    inner = [part.get("items", {}), *part.get("prefixItems", ())]
    if "object" in types or any(each.get("type") in ("array", "object") for each in inner):
        return part
    most = {"maxItems": part["maxItems"]} if "maxItems" in part else {}
    return {"type": ["array", "null"], "items": _PLAIN, **most}


def _wrap(
    function: Callable[..., Any], parameters: Mapping[str, FormParameter]
) -> Callable[..., Any]:
    def bind(ctx: Context, arguments: Mapping[str, Any]) -> dict[str, Any]:
        bound = {
            name: each.bind(ctx, arguments)
            for name, each in parameters.items()
            if name in arguments
        }
        return {**arguments, **bound}

    made: Any
    if is_async_callable(function):

        @wraps(function)
        async def acall(**arguments: Any) -> Any:
            ctx: Context = arguments.pop(CONTEXT)
            scope = ctx._call.server.ports.scope
            bound = await scope.run(partial(bind, ctx, arguments), ctx._call)
            return await function(**bound)

        made = acall
    else:

        @wraps(function)
        def call(**arguments: Any) -> Any:
            ctx: Context = arguments.pop(CONTEXT)
            return function(**bind(ctx, arguments))

        made = call
    signature = inspect.signature(function)
    context = inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=Context)
    made.__signature__ = signature.replace(parameters=[*signature.parameters.values(), context])
    made.stands_for = function
    taking: Callable[..., Any] = made
    return taking
