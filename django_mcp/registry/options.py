"""The options with which a site registers its functions: of the decorators and of the methods alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from django_mcp.protocol.annotations import Annotations, Icon, check_mime_type
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.results import CacheHint
from django_mcp.registry import rules
from django_mcp.registry.access import Permission, read_rate, takes_user
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.signatures import is_async_callable

Atomic: TypeAlias = bool | str | Sequence[str]
"""True: the default database; False: none; else the alias of a database, or several."""


EXTENSION_OPTIONS: Mapping[str, str | tuple[str, ...]] = {
    "io.modelcontextprotocol/tasks": "task",
    "io.modelcontextprotocol/ui": ("app", "visible_to", "confirm"),
}
"""The options that stand for `extensions={identifier: value}`: the value is that of one option, or a dict of several."""


class CommonOptions(TypedDict, total=False):
    """Options of every entry.

    name: for programs; by default the function's.
    title, description: for people and models; may be lazy. By default the description is the
        docstring's, without its sections on parameters and the result, and the title of a tool is
        made from its name.
    icons: `Icon`s, their `https:` URLs, or dicts such as `{"src": ..., "mime_type": ...}`.
    meta: `_meta` as listed.
    permission: a permission, several that are all needed, or a function of the user; the entry is
        hidden from users without them. By default the server's; `()`: none.
    scopes: OAuth scopes that a token needs all of; they do not hide the entry. By default the
        server's; `()`: none.
    check: a function of the user and the arguments of a call; if it returns false, the client gets
        the same error as for something that does not exist.
    listed_if: a function of the user; the entry is hidden where it returns false. It is asked in
        addition to `permission` or the server's default, which it does not replace.
    extensions: options for extensions of the server, by their identifiers.
    toolset: the name of the group of entries that it belongs to, which clients can ask for by itself. By
        default the label of the app that the function is in.
    """

    name: str | None
    title: Any
    description: Any
    icons: Sequence[Icon | Mapping[str, Any] | str]
    meta: Mapping[str, Any] | None
    permission: Permission
    scopes: str | Sequence[str] | None
    check: Callable[..., Any] | None
    listed_if: Callable[..., Any] | None
    extensions: Mapping[str, Any] | None
    toolset: str | None


class ToolOptions(CommonOptions, total=False):
    """Options of a tool.

    input_schema: a JSON Schema, published in the form that clients accept; by default made from the
        parameters. The function takes either all arguments as one dict or each property as a parameter.
    output_schema: a JSON Schema or a type; by default made from the return annotation if that
        declares data. None: none.
    returns: the type of the data, in place of the return annotation, as in `list[GroupOut]` for a
        function that returns a queryset.
    read_only, destructive, idempotent, open_world: hints for clients. By default a tool may write,
        destroy and reach what is not of the site, and a second call does something else; with
        `read_only=True` it does not destroy, and may be called again.
    timeout: seconds a call may take; by default the server's.
    throttle: how often each user may call it, with all of their clients and keys, such as `"10/m"`.
    required_client_capabilities: capabilities that a client has to declare.
    validate_input: check arguments even if the server does not (`VALIDATE_INPUT`).
    validate_output: check results against the output schema; by default the server's.
    task: whether a call may continue after its request as a task that the client polls:
        `"never"` (the default), `"allowed"`, `"required"`, or `"auto"`: if it takes long.
    app: the page that hosts with MCP Apps show with a call: the name of a template, or `App(...)`.
    visible_to: `"app"` for a tool that pages call and models need not see, `"model"` for the opposite.
        Hosts follow it; it is no access rule.
    confirm: `"app"`, or `Confirm(...)`: the user has to agree before the tool runs: by an answer where the client can
        ask, or on a page that it shows, or else by a second call of the model.
    atomic: the transaction that a synchronous tool runs in. True: on the default database. False:
        none. An alias, or several: on these databases. By default none for a tool with
        `read_only=True`, and the server's for others.
    record_arguments: keep the arguments in the record of calls, if there is one; by default
        only the type of each value.
    keywords: further words by which `find_tools` finds it.
    ask_by_argument: take answers to what the tool asks in a further argument, `answers`, for clients that
        cannot ask their users; the others may send it too.
    """

    input_schema: JSONObject | None
    output_schema: Any
    returns: Any
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    timeout: float | None
    throttle: str | None
    required_client_capabilities: JSONObject | None
    validate_input: bool | None
    validate_output: bool | None
    task: str
    app: Any
    visible_to: str
    confirm: Any
    atomic: Atomic | None
    record_arguments: bool
    keywords: Sequence[str]
    ask_by_argument: bool


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


def read_aliases(atomic: Any) -> tuple[str, ...]:
    """Return the aliases that a value of `atomic` means, each once."""
    if isinstance(atomic, bool):
        return ("default",) if atomic else ()
    given = (atomic,) if isinstance(atomic, str) else atomic
    is_list = isinstance(given, Sequence) and not isinstance(given, bytes | bytearray)
    if not is_list or not all(isinstance(alias, str) and alias for alias in given):
        raise TypeError(f"{atomic!r} is neither True, False, nor one or several database aliases")
    return tuple(dict.fromkeys(given))


_CAPABILITIES = ("elicitation", "experimental", "extensions", "roots", "sampling", "tasks")
ATOMIC = rules.reading(
    read_aliases, "True, False, the alias of a database, or a list of such aliases"
)
HINTS = ("read_only", "destructive", "idempotent", "open_world")
RULES: Mapping[str, rules.Rule] = {
    **dict.fromkeys(
        (*HINTS, "validate_input", "validate_output", "record_arguments", "ask_by_argument"),
        rules.BOOL,
    ),
    "name": rules.NAME,
    "title": rules.TEXT,
    "description": rules.TEXT,
    "icons": rules.ICONS,
    "meta": rules.Rule(lambda value: isinstance(value, Mapping), "a dict"),
    "permission": rules.PERMISSION,
    "scopes": rules.SCOPES,
    "check": rules.Rule(callable, "a function of the user and the arguments").that_answers(),
    "listed_if": rules.Rule(
        lambda value: callable(value) and not is_async_callable(value) and takes_user(value),
        "a synchronous function of the user alone",
    ).that_answers(),
    "extensions": rules.Rule(
        lambda value: isinstance(value, Mapping) and all(isinstance(key, str) for key in value),
        "a dict from identifiers to options",
    ),
    "toolset": rules.TOOLSET,
    "input_schema": rules.Rule(lambda value: isinstance(value, dict), "a JSON Schema as a dict"),
    "output_schema": rules.Rule(lambda _: True, "a JSON Schema as a dict, or a type"),
    "returns": rules.Rule(
        lambda value: not isinstance(value, str | bytes | int | float | Mapping | list | tuple),
        "a type such as list[GroupOut]; a JSON Schema is an output_schema",
    ),
    "timeout": rules.SECONDS,
    "keywords": rules.list_of(lambda word: isinstance(word, str), "strings"),
    "throttle": rules.reading(read_rate, "a number, / and s, m, h or d, as in '10/m'"),
    "required_client_capabilities": rules.Rule(
        lambda value: (
            isinstance(value, dict)
            and all(name in _CAPABILITIES and isinstance(value[name], dict) for name in value)
        ),
        f"a dict such as {{'sampling': {{}}}}, from {', '.join(_CAPABILITIES)} to dicts",
    ),
    "task": rules.choice("never", "allowed", "required", "auto"),
    "app": rules.Rule(lambda _: True, "the name of a template, or App(...)"),
    "visible_to": rules.choice("app", "model"),
    "confirm": rules.Rule(lambda _: True, "'app', or Confirm(...)"),
    "atomic": ATOMIC,
    "mime_type": rules.reading(check_mime_type, "a MIME type such as 'image/png'"),
    "annotations": rules.Rule(lambda value: isinstance(value, Annotations), "Annotations(...)"),
    "cache": rules.Rule(lambda value: isinstance(value, CacheHint), "CacheHint(...)"),
    "size": rules.whole("bytes", least=0),
}
"""The values of each option, whichever kind of entry has it; None is never checked."""


def tool_aliases(
    atomic: Atomic | None, source: str, *, is_read_only: bool, is_async: bool
) -> tuple[str, ...] | None:
    """Return the aliases for a tool; None leaves them to its server."""
    if atomic is None:
        return () if is_read_only or is_async else None
    aliases = read_aliases(atomic)
    if aliases and is_async:
        raise RegistrationError(
            f"{source}: atomic= is {atomic!r:.60}, but an asynchronous function gets no "
            f"transaction. Make it a plain function, or call one with `sync_to_async` that opens "
            f"`transaction.atomic()`."
        )
    return aliases
