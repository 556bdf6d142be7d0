"""Tools that show the form of another tool: `open_change_quantity` for `change_quantity`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from django_mcp.context import Context
from django_mcp.extensions.apps.core.app import (
    EXTENSION,
    FORM_FRAGMENT,
    FORM_TEMPLATE,
    App,
    ArgumentsForm,
    Shown,
)
from django_mcp.extensions.apps.site.form_fields import FormField, describe_form
from django_mcp.extensions.apps.site.form_parameters import CONTEXT, FormParameter, without
from django_mcp.extensions.apps.site.schema_fields import describe_schema
from django_mcp.protocol.content import Text
from django_mcp.protocol.errors import Refusal, Refused, ToolError
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.results import ToolResult
from django_mcp.registry.entries import ANSWERS, ToolEntry
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import ArgumentErrors, RegistrationError
from django_mcp.server.exchange.call import Failure
from django_mcp.server.handlers.call_checks import check_call
from django_mcp.server.request_checks import check_scopes
from django_mcp.servers import MCPServer

PREFIX: Final = "open_"
"""What the name of a tool that shows a form begins with."""

MAX_TOLD = 30
"""Values of a form that its text tells."""

MAX_TOLD_CHARS = 200

_VALUES: JSONObject = {"type": "object", "description": "What the form starts with, by field."}
_CHOICES: JSONObject = {
    "type": "object",
    "description": "The choices of fields that this user has, at most 200 each.",
    "additionalProperties": {
        "type": "array",
        "items": object_schema(
            {"value": {}, "label": {"type": "string"}}, required=["value", "label"]
        ),
    },
}
_MORE: JSONObject = {
    "type": "array",
    "items": {"type": "string"},
    "description": "The fields that have further choices.",
}
OUTPUT: JSONObject = object_schema(
    {"tool": {"type": "string"}, "values": _VALUES, "choices": _CHOICES, "more_choices": _MORE},
    required=["tool", "values", "choices"],
)
"""The schema of what a tool that shows a form returns."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A form for one caller, for its template.

    Attributes:
        tool: that the form calls.
        opened_by: the tool that shows it.
        title: for people.
        fields: of the form.
        arguments: of the call that are sent with the form.
        into: the argument for the values of the form; None: each is an argument.
        is_change: whether only what the user changes is sent.
    """

    tool: str
    opened_by: str
    title: Any
    fields: list[FormField]
    arguments: JSONObject = field(default_factory=dict)
    into: str | None = None
    is_change: bool = False

    @property
    def sent_arguments(self) -> str:
        """The arguments as JSON."""
        return encode(self.arguments).decode()

    @property
    def has_required(self) -> bool:
        """Whether a field has to be filled in."""
        return any(each.is_required and not each.is_hidden for each in self.fields)

    def to_json(self) -> JSONObject:
        """Return the structured result."""
        shown = [each for each in self.fields if each.choices is not None]
        result: JSONObject = {
            "tool": self.tool,
            "values": {each.name: each.value for each in self.fields},
            "choices": {
                each.name: [
                    {"value": choice.value, "label": choice.label} for choice in each.choices or ()
                ]
                for each in shown
            },
        }
        more = [each.name for each in shown if each.has_more]
        return {**result, "more_choices": more} if more else result

    def to_text(self, *, is_shown: bool) -> str:
        """Return what a model is told: that the user sees the form, or how to send it in their place."""
        told = [f"- {each.name}: {_tell(each)}" for each in self.fields if not each.is_hidden]
        if len(told) > MAX_TOLD:
            told = [*told[:MAX_TOLD], f"- and {len(told) - MAX_TOLD} further fields"]
        first = f"This is the form of {self.tool}. To send it, call that tool"
        first += f", with the fields in {self.into}." if self.into else "."
        if is_shown:
            first = f"The user sees the form of {self.tool} and sends it, so do not call that tool for them."
        return "\n".join([first, "It starts with:", *told] if told else [first])


def _tell(each: FormField) -> str:
    text = ", ".join(choice.label for choice in each.chosen) if each.choices else each.text
    if each.kind == "checkbox":
        text = "yes" if each.value else "no"
    if not text:
        return "nothing"
    return text if len(text) <= MAX_TOLD_CHARS else f"{text[: MAX_TOLD_CHARS - 1]}…"


def register_opening_tool(server: MCPServer, tool: ToolEntry, app: App) -> ToolEntry:
    """Register the tool that shows the form of another tool, and return it.

    Its name is `open_` and that of the other; it has the same access rules, and is read-only. `MCPServer.register_tool`
    calls this for a tool with `app=App(form=...)`, so only what registers tools with other options calls it itself.

    Args:
        server: has the tool.
        tool: that the form calls.
        app: with the form.

    Raises:
        RegistrationError: there is a tool of that name, or the form does not fit the tool.
    """
    form = app.form
    name = f"{PREFIX}{tool.name}"
    if isinstance(form, ArgumentsForm):
        function, schema = _open_arguments(tool, form, name)
        into = None
    else:
        parameter: FormParameter = tool.handler.function.form_parameter  # type: ignore[attr-defined]
        function, schema = _open_form(server, tool, parameter, name), None
        into = parameter.name
    is_change = app.initial is not None or (isinstance(form, ArgumentsForm) and bool(form.read))
    page = App(
        template=app.template or FORM_TEMPLATE,
        fragment=FORM_FRAGMENT,
        csp=app.csp,
        permissions=app.permissions,
        prefers_border=app.prefers_border,
        domain=app.domain,
    )
    access = tool.access
    return server.register_tool(
        function,
        name=name,
        title=format_lazy("{}: {}", gettext_lazy("Form"), tool.title),
        description=f"Show the user the form of {tool.name}, {_PURPOSES[is_change]}.",
        input_schema=schema,
        output_schema=OUTPUT,
        permission=access.permission,
        scopes=access.scopes,
        check=access.check,
        listed_if=access.listed_if,
        toolset=tool.toolset,
        # Each call of the form looks up what it starts with.
        throttle=None if tool.throttle is None else str(tool.throttle),
        required_client_capabilities=tool.required_client_capabilities,
        validate_input=tool.validate_input,
        read_only=True,
        open_world=False,
        extensions={EXTENSION: Shown(app=page, sends_to=tool.name, sends_into=into)},
    )


_PURPOSES = {
    False: "so that they fill it in and send it themselves",
    True: "filled in with what is there, so that they change and send it themselves",
}
"""What the form of a tool is for, by whether it starts with what is there."""

_Show = Callable[..., Coroutine[Any, Any, ToolResult]]


def _stand_for(function: _Show, tool: ToolEntry) -> _Show:
    """Have a function be known as the one of another tool, for messages and toolsets."""
    origin: Any = tool.handler.origin
    function.__module__ = origin.__module__
    function.__qualname__ = f"{getattr(origin, '__qualname__', tool.name)}"
    made: Any = function
    made.__signature__ = inspect.signature(function)
    # Who may not send the form has no use for the values in it.
    made.used_with = tool.name
    if inspect.isroutine(origin):
        function.__wrapped__ = origin  # type: ignore[attr-defined]
    convert = getattr(origin, "convert_for_check", None)
    for name, value in (("convert_for_check", convert), ("is_listed", tool.is_listed)):
        setattr(function, name, value)
    return function


def _finish(ctx: Context, opened: Opened) -> ToolResult:
    shown = ctx.extensions[EXTENSION]
    shown.variables["form"] = opened
    text = opened.to_text(is_shown=shown.is_shown)
    return ToolResult(content=[Text(text)], structured=opened.to_json())


# -- forms of Django


def _open_form(server: MCPServer, tool: ToolEntry, parameter: FormParameter, name: str) -> _Show:
    """Return the function that shows a form of Django."""
    function: Any = tool.handler.function
    signature = without(server, function, {parameter.name: parameter})
    known = [each.name for each in signature.parameters]

    def show(ctx: Context, arguments: Mapping[str, Any]) -> ToolResult:
        made = parameter.make_form(ctx, arguments)
        given = ctx.params.get("arguments") or {}
        return _finish(
            ctx,
            Opened(
                tool=tool.name,
                opened_by=name,
                title=tool.title,
                fields=describe_form(made),
                arguments={each: given[each] for each in known if each in given},
                into=parameter.name,
            ),
        )

    async def open_form(**arguments: Any) -> ToolResult:
        ctx: Context = arguments.pop(CONTEXT)
        result: ToolResult = await ctx._call.server.ports.scope.run(
            partial(show, ctx, arguments), ctx._call
        )
        return result

    parameters = inspect.signature(function).parameters
    made: Any = _stand_for(open_form, tool)
    made.__signature__ = inspect.Signature(
        [
            parameters[each].replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in (*known, CONTEXT)
        ]
    )
    made.__annotations__ = {
        CONTEXT: Context,
        **{
            each.name: each.annotation
            if each.description is None
            else Annotated[each.annotation, each.description]
            for each in signature.parameters
        },
    }
    return open_form


# -- forms of arguments


def _open_arguments(tool: ToolEntry, form: ArgumentsForm, name: str) -> tuple[_Show, JSONObject]:
    """Return the function that shows the arguments of a tool as a form, and its input schema."""
    properties = tool.input_schema.get("properties", {})
    unknown = [each for each in (*form.keys, *form.sources) if each not in properties]
    if unknown:
        raise RegistrationError(
            f"{tool.source}: ArgumentsForm names {unknown[0]!r}, which is no argument of the tool."
        )
    schema = object_schema({key: properties[key] for key in form.keys}, required=form.keys)
    if "$defs" in tool.input_schema:
        schema["$defs"] = tool.input_schema["$defs"]

    async def open_form(form_context: Context, arguments_of_call: Any) -> ToolResult:
        ctx = form_context
        values = await _read_values(ctx, form, arguments_of_call)
        sees = ctx.tools.__contains__
        fields = describe_schema(
            tool.published(tool.form_schema, sees),
            values,
            keys=(*form.keys, ANSWERS),
            hidden=form.sources,
            is_change=form.read is not None,
        )
        return _finish(
            ctx,
            Opened(
                tool=tool.name,
                opened_by=name,
                title=tool.title,
                fields=fields,
                arguments=arguments_of_call,
                is_change=form.read is not None,
            ),
        )

    open_form.__annotations__ = {"form_context": Context, "arguments_of_call": Any}
    return _stand_for(open_form, tool), schema


async def _read_values(
    ctx: Context, form: ArgumentsForm, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the values of the object that a form changes, as its caller sees it.

    Raises:
        Refused, ArgumentErrors, ToolError: its caller may not read the object by a call of the tool that does.
    """
    entry = None if form.read is None else ctx.tools.get(form.read)
    if entry is None or check_scopes(ctx._call, entry) is not None:
        return {}
    checked = await check_call(ctx._call, entry, {**arguments})
    if isinstance(checked, Refusal):
        raise Refused(checked)
    if isinstance(checked, Failure):
        raise ArgumentErrors(checked.problems) if checked.problems else ToolError(checked.message)
    handler, scope = entry.handler, ctx._call.server.ports.scope
    bound = handler.read(checked)
    handler.inject(bound, ctx)
    if handler.check is not None and handler.check.is_async:
        await handler.check.ademand(ctx, bound)

    def call() -> Any:
        if handler.check is not None and not handler.check.is_async:
            handler.check.demand(ctx, bound)
        return None if handler.is_async else handler.convert(handler.function(**bound))

    result = await scope.run(call, ctx._call)
    if handler.is_async:
        value = await handler.function(**bound)
        result = await scope.run(partial(handler.convert, value), ctx._call)
    if result.is_error or not isinstance(result.structured, Mapping):
        return {}
    values = dict(result.structured)
    return {
        **values,
        **{argument: values.get(source) for argument, source in form.sources.items()},
    }
