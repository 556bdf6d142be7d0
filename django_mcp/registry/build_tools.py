"""Build tools from functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from msgspec.structs import replace

from django_mcp.protocol.header_params import header_params
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.names import is_tool_name
from django_mcp.protocol.results import ABSENT
from django_mcp.registry import adapters
from django_mcp.registry.access import read_rate
from django_mcp.registry.arguments import Reader, read_nothing, read_typed
from django_mcp.registry.building import (
    Providers,
    common_fields,
    listed,
    make_handler,
    registration_errors,
    whole_reader,
)
from django_mcp.registry.defaults import check_defaults
from django_mcp.registry.entries import ANSWERS, FUNCTION, ToolEntry
from django_mcp.registry.field_validators import ValueRules
from django_mcp.registry.options import HINTS, ToolOptions, tool_aliases
from django_mcp.registry.portable import make_portable
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.returns import Output, find_output, tool_converter
from django_mcp.registry.schemas import copy_schema, has_lazy_texts
from django_mcp.registry.signatures import Signature
from django_mcp.registry.validators import Validator


def build_tool(
    function: Callable[..., Any], providers: Providers, **options: Unpack[ToolOptions]
) -> ToolEntry:
    """Return a tool; for the options see `ToolOptions`."""
    signature = _read_returns(providers.read(function), options)
    source = signature.source
    fields = common_fields(signature, options, providers)
    if not is_tool_name(fields["name"]):
        raise RegistrationError(
            f"{source}: {fields['name']!r} is not a valid tool name. "
            f"Use 1 to 128 letters, digits and `_ . -`: name='...'."
        )
    title = fields["title"]
    if title is None or (isinstance(title, str) and not title.strip()):
        fields["title"] = _title(fields["name"])
    throttle = options.get("throttle")
    read, published, inner = _input(signature, options.get("input_schema"), providers.converter)
    output, published_output = _output(signature, providers, options.get("output_schema", ABSENT))
    convert = tool_converter(
        providers.converter, output, published_output, source, signature.returns
    )
    if options.get("ask_by_argument"):
        published = _with_answers(published, source)
    with registration_errors(source):
        headers = header_params(published)
    # A property that is repeated in a header has one plain type; an optional one may be null.
    # Source: 2026-07-28 server/tools, "x-mcp-header".
    nullable = {header.path[0] for header in headers if len(header.path) == 1}
    nullable.difference_update(published.get("required", ()))
    # A function may say itself what is wrong with a part of its arguments.
    relax = getattr(function, "relax_input", None)
    checked = published if relax is None else relax(published)
    input_validator = Validator(checked, source, is_input=True, nullable=nullable)
    output_validator = (
        None if published_output is None else Validator(published_output, source, is_input=False)
    )
    form_schema = published
    # A function that is generated may leave out of the schema what its validator alone needs.
    shorten = getattr(function, "shorten_input", None)
    published = make_portable(published if shorten is None else shorten(published))
    published_output = None if published_output is None else make_portable(published_output)
    handler = make_handler(signature, read, convert, fields["access"], providers, properties=inner)
    is_read_only = options.get("read_only") is True
    if is_read_only and options.get("destructive"):
        raise RegistrationError(
            f"{source}: read_only=True says that it changes nothing, and destructive=True that it destroys. "
            f"Leave one of them out."
        )
    aliases = tool_aliases(
        options.get("atomic"), source, is_read_only=is_read_only, is_async=handler.is_async
    )
    return ToolEntry(
        handler=replace(
            handler,
            aliases=aliases,
            declines_atomic=options.get("atomic") is not None and not aliases,
        ),
        input_schema=published,
        form_schema=form_schema,
        input_validator=input_validator,
        output_schema=published_output,
        output_validator=output_validator,
        annotations=_hints(options),
        stated_hints=frozenset(name for name in HINTS if options.get(name) is not None),
        header_params=headers,
        timeout_s=options.get("timeout"),
        throttle=None if throttle is None else read_rate(throttle),
        required_client_capabilities=dict(options.get("required_client_capabilities") or {}),
        validate_input=options.get("validate_input") is True,
        validate_output=options.get("validate_output"),
        record_arguments=options.get("record_arguments") or False,
        has_lazy_texts=has_lazy_texts([published, published_output]),
        origin=getattr(function, "origin", FUNCTION),
        is_listed=getattr(function, "is_listed", True),
        is_only_listed=getattr(function, "is_only_listed", False),
        asks_by_argument=options.get("ask_by_argument") is True,
        asks_itself=getattr(function, "asks_itself", False),
        keywords=tuple(options.get("keywords") or ()),
        leads_to=getattr(function, "leads_to", None),
        redirect=getattr(function, "redirect", None),
        used_with=getattr(function, "used_with", None),
        defaulted=_find_defaulted(signature, form_schema) - nullable,
        family=getattr(function, "family", None),
        role=getattr(function, "role", ""),
        **fields,
    )


def _read_returns(signature: Signature, options: ToolOptions) -> Signature:
    """Return the signature with the type that the options give for the result, if they do."""
    returns, schema = options.get("returns"), options.get("output_schema")
    if returns is not None and "output_schema" in options:
        raise RegistrationError(
            f"{signature.source}: returns= makes the output schema. Leave output_schema= out."
        )
    if returns is None and schema is not None and not isinstance(schema, dict):
        returns = schema
    return signature if returns is None else replace(signature, returns=returns)


def _title(name: str) -> str:
    """Return the title of a tool that was given none: `Find orders` for `find_orders`."""
    words = re.sub(r"[_.-]+", " ", name).strip()
    return words[:1].upper() + words[1:] or name


def _hints(options: ToolOptions) -> dict[str, bool]:
    """Return all hints, since directories refuse tools that leave one to the protocol's default.

    Those that were not given have that default; a tool that only reads destroys nothing and may run
    again.
    Source: 2026-07-28 schema, `ToolAnnotations`.
    """
    is_read_only = options.get("read_only") is True
    hints = {
        "readOnlyHint": (options.get("read_only"), False),
        "destructiveHint": (options.get("destructive"), not is_read_only),
        "idempotentHint": (options.get("idempotent"), is_read_only),
        "openWorldHint": (options.get("open_world"), True),
    }
    return {name: default if given is None else given for name, (given, default) in hints.items()}


def _find_defaulted(signature: Signature, schema: JSONObject) -> frozenset[str]:
    """Return the arguments with a default in the function, or in a schema of the site's own."""
    properties = schema.get("properties", {}).items()
    published = [name for name, each in properties if isinstance(each, dict) and "default" in each]
    own = (parameter.name for parameter in signature.parameters if not parameter.is_required)
    return frozenset((*published, *own))


def _input(
    signature: Signature, schema: JSONObject | None, rules: ValueRules
) -> tuple[Reader, JSONObject, Sequence[str]]:
    """Return the reader of the arguments, the schema to publish, and the names in one dict of all."""
    if schema is not None and not _takes_each(signature, schema):
        inner = tuple(schema.get("properties", ())) if signature.parameters else ()
        return whole_reader(signature), copy_schema(schema), inner
    if not signature.parameters:
        # Source: 2025-11-25 server/tools "Tool", `inputSchema`.
        no_arguments = {"type": "object", "additionalProperties": False}
        return read_nothing, no_arguments if schema is None else dict(schema), ()
    conversion = adapters.adapt_arguments(signature.parameters, signature.source, rules)
    check_defaults(signature.parameters, signature.source)
    read = read_typed(conversion)
    if schema is not None:
        return read, copy_schema(schema), ()
    return (
        read,
        adapters.input_schema(conversion, signature.parameters, signature.source, rules),
        (),
    )


def _with_answers(schema: JSONObject, source: str) -> JSONObject:
    properties = schema.get("properties", {})
    if ANSWERS in properties:
        raise RegistrationError(
            f"{source}: ask_by_argument=True adds an argument {ANSWERS!r}, which it has already. Rename that."
        )
    answers = {
        "type": "object",
        "description": "What the user answered, once an error of this tool says what to ask.",
    }
    return {**schema, "properties": {**properties, ANSWERS: answers}}


def _takes_each(signature: Signature, schema: JSONObject) -> bool:
    """Return whether a function takes the properties of a schema one by one, not as one dict."""
    names = [parameter.name for parameter in signature.parameters]
    properties = schema.get("properties", {})
    if len(names) <= 1 and not (names and names[0] in properties):
        return False
    if set(names) != set(properties):
        raise RegistrationError(
            f"{signature.source}: the properties of its input schema are {listed(properties)}, but "
            f"its parameters are {listed(names)}. Give both the same names, or take all of them "
            f"as one dict: `arguments`."
        )
    return True


def _output(
    signature: Signature, providers: Providers, schema: Any
) -> tuple[Output | None, JSONObject | None]:
    """Return the converter of values to data, and the schema of the data, if there is any."""
    source, converter = signature.source, providers.converter
    if schema is None:
        return None, None
    if isinstance(schema, dict):
        return None, copy_schema(schema)
    if schema is ABSENT:
        output = find_output(signature.returns, source, converter)
        return output, None if output is None else output.schema
    try:
        output = Output(schema, source, converter)
    except TypeError as error:
        raise RegistrationError(
            f"{source}: output_schema= takes a JSON Schema, or a type that has one: {error}"
        ) from None
    return output, output.schema
