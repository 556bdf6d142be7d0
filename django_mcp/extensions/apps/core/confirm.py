"""Confirm: what the user has to agree to before a tool runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import ToolResult
from django_mcp.registry.access import ObjectCheck, read_check
from django_mcp.registry.building import Providers
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.validators import Validator
from django_mcp.server.asking.confirming import (
    CONFIRMATION,
    CONFIRMATION_SCHEMA,
    without_confirmation,
)

PAGE: Final = "django_mcp/apps/confirm.html"
QUESTION: Final = "django_mcp/apps/_question.html"
OUTCOME: Final = "django_mcp/apps/_outcome.html"
"""Templates: the page, and its parts before and after the tool has run."""

_TASKS = "io.modelcontextprotocol/tasks"
_ARGUMENTS, _CONTEXT = "confirmed arguments", "confirmed context"
"""What the function around a tool gets beside the parameters of the tool, whose names are no identifiers."""

TellFunction: TypeAlias = Callable[..., Any]
"""Its first parameter is the user, or the context if it is called `ctx`; the others are arguments of the tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """What the user has to agree to before a tool runs.

    The page shows the title of the tool and the arguments. It guards against mistakes, and is no access rule.

    Args:
        question: a function that returns what to say besides, or a text, which may be lazy; None: nothing.
        state: a function that returns what the tool is about to change, such as the object or a list of values. What
            the user has agreed to counts for that state alone. None: for any.

    Both functions are synchronous. They take the user, or the context if the first parameter is called `ctx`, and
    those arguments of the tool that they name.

    Raises:
        ValueError: a value is wrong; the text says what it may be.
    """

    question: Any = None
    state: TellFunction | None = None

    def __post_init__(self) -> None:
        if self.state is not None and not callable(self.state):
            raise ValueError(f"state is {self.state!r:.60}: write a function")


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """A tool that runs when the user has agreed.

    Attributes:
        title: of the tool; may be lazy.
        schema: of its arguments.
        question: returns what to say, or says it; None: nothing.
        state: returns what the tool is about to change; None: a confirmation counts for any state.
    """

    title: Any
    schema: JSONObject
    question: Any = None
    state: ObjectCheck | None = None


Agree: TypeAlias = Callable[[Confirmed, Any, JSONObject, dict[str, Any]], "JSONObject | None"]
"""Asks the user to agree to a call of a tool.

It takes the tool, the context, the arguments with the confirmation if there is one, and the arguments as the function of
the tool gets them. It returns the `text` and the `structured` content of a call that does nothing; None, if the user has
agreed. It raises `ToolError` if the confirmation is not for this call.
"""


def read_confirm(value: Any) -> Confirm | None:
    """Return what the option `confirm=` of a tool says; raises `ValueError` if it is wrong."""
    if value is None or isinstance(value, Confirm):
        return value
    if value != "app":
        raise ValueError(f"confirm= is {value!r:.60}: write 'app', or Confirm(...)")
    return Confirm()


def confirm_first(tool: ToolEntry, confirm: Confirm, providers: Providers, agree: str) -> ToolEntry:
    """Return a tool that runs when the user has agreed.

    Permissions and the check of the tool decide before that, about each call.

    Args:
        tool: as its options are.
        confirm: what the user agrees to.
        providers: of its server.
        agree: the identifier of the extension whose `agree` asks the user.

    Raises:
        RegistrationError: the tool has options that do not go with it.
    """
    _check(tool)
    if tool.asks_itself:
        # With the option it does so on the page.
        return tool
    return _with_schemas(_with_handler(tool, confirm, providers, agree))


def _check(tool: ToolEntry) -> None:
    if tool.annotations["readOnlyHint"]:
        raise _refuse(tool, "read_only=True", "which changes nothing")
    if tool.extensions.get(_TASKS, "never") != "never":
        raise _refuse(tool, "task=", "whose calls go on after the user's answer is due")
    if tool.asks_by_argument:
        raise _refuse(tool, "ask_by_argument=True", "by which a model may agree itself")


def _refuse(tool: ToolEntry, option: str, why: str) -> RegistrationError:
    return RegistrationError(
        f"{tool.source}: confirm= does not go with {option}, {why}. Leave one of them out."
    )


def _with_handler(
    tool: ToolEntry, confirm: Confirm, providers: Providers, identifier: str
) -> ToolEntry:
    handler = tool.handler
    function, read = handler.function, handler.read
    confirmed = Confirmed(
        title=tool.title,
        schema=tool.input_schema,
        question=confirm.question
        if not callable(confirm.question)
        else _bind(confirm.question, tool, providers, "question"),
        state=None if confirm.state is None else _bind(confirm.state, tool, providers, "state"),
    )

    def ask(kwargs: dict[str, Any]) -> tuple[Any, Callable[[], ToolResult | None]]:
        ctx, arguments = kwargs.pop(_CONTEXT), kwargs.pop(_ARGUMENTS)
        extension = ctx._call.server.extensions[identifier]

        def run() -> ToolResult | None:
            told = extension.agree(confirmed, ctx, arguments, kwargs)
            return None if told is None else _to_result(told)

        return ctx._call, run

    def run_confirmed(**kwargs: Any) -> Any:
        told = ask(kwargs)[1]()
        return function(**kwargs) if told is None else told

    async def arun_confirmed(**kwargs: Any) -> Any:
        call, run = ask(kwargs)
        told = await call.server.ports.scope.run(run, call)
        return await function(**kwargs) if told is None else told

    def read_confirmed(arguments: JSONObject) -> dict[str, Any]:
        return {**read(without_confirmation(arguments)), _ARGUMENTS: arguments}

    return replace(
        tool,
        handler=replace(
            handler,
            function=arun_confirmed if handler.is_async else run_confirmed,
            read=read_confirmed,
            injections={**handler.injections, _CONTEXT: lambda ctx: ctx},
        ),
    )


def _bind(function: TellFunction, tool: ToolEntry, providers: Providers, word: str) -> ObjectCheck:
    signature = providers.read(tool.handler.origin)
    names = {parameter.name for parameter in signature.parameters}
    properties = tuple(tool.input_schema.get("properties", ()))
    return read_check(
        function,
        signature,
        is_async_handler=False,
        injectables=providers.injectables,
        provide_user=providers.provide_user,
        properties=() if names == set(properties) else properties,
        word=word,
    )


def _to_result(told: JSONObject) -> ToolResult:
    """Return what a call that did nothing tells its caller; clients without structured content read it as text."""
    return ToolResult([told["text"]], structured=told["structured"])


def _with_schemas(tool: ToolEntry) -> ToolEntry:
    """Return a tool whose arguments may have a confirmation, and whose result may be a question."""
    properties = tool.input_schema.get("properties", {})
    if CONFIRMATION in properties:
        raise RegistrationError(
            f"{tool.source}: confirm= adds an argument {CONFIRMATION!r}, which it has already. "
            "Rename that, or leave confirm= out."
        )
    added = {CONFIRMATION: CONFIRMATION_SCHEMA}
    form = {**tool.form_schema, "properties": {**tool.form_schema.get("properties", {}), **added}}
    validator = Validator(form, tool.source, is_input=True, nullable=tool.input_validator.nullable)
    output = None if tool.output_schema is None else _with_question(tool.output_schema)
    return replace(
        tool,
        asks_itself=True,
        input_schema={**tool.input_schema, "properties": {**properties, **added}},
        form_schema=form,
        input_validator=validator,
        output_schema=output,
        output_validator=None if output is None else Validator(output, tool.source, is_input=False),
    )


_QUESTION_SCHEMA: JSONObject = {
    "message": {"type": "string", "description": "What the user has to agree to."},
    CONFIRMATION: {
        "type": "string",
        "description": "Call again with this, after the user has agreed.",
    },
}


def _with_question(schema: JSONObject) -> JSONObject | None:
    """Return the output schema of a tool whose result may be a question; None: it describes no plain object."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or properties is None:
        return None
    if not properties.keys().isdisjoint(_QUESTION_SCHEMA) or "anyOf" in schema:
        return None
    # Until the user has agreed, a result has the question in place of the data.
    return {**schema, "properties": {**properties, **_QUESTION_SCHEMA}, "required": []}
