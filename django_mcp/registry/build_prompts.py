"""Build prompts from functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from django_mcp.registry import adapters
from django_mcp.registry.arguments import Reader, read_nothing, read_strings
from django_mcp.registry.build_completers import choice_completers
from django_mcp.registry.building import (
    Surroundings,
    common_fields,
    make_handler,
    string_reader,
    whole_reader,
)
from django_mcp.registry.entries import PromptArgument, PromptEntry
from django_mcp.registry.options import CommonOptions
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.replies import prompt_converter
from django_mcp.registry.signatures import Parameter, Signature


def build_prompt(
    function: Callable[..., Any],
    surroundings: Surroundings,
    *,
    arguments: Sequence[PromptArgument] | None = None,
    **options: Unpack[CommonOptions],
) -> PromptEntry:
    """Return a prompt, whose arguments are the function's parameters unless they are given.

    With `arguments` the function takes all of them as one dict of strings, as its only parameter.
    """
    signature = surroundings.read(function)
    if arguments is None:
        listed = tuple(map(_prompt_argument, signature.parameters))
        read = string_reader(signature)
        completers = choice_completers(signature)
    else:
        listed = tuple(arguments)
        read = _reader_of(signature, listed)
        completers = {}
    fields = common_fields(signature, options)
    convert = prompt_converter(surroundings.converter)
    return PromptEntry(
        arguments=listed,
        handler=make_handler(signature, read, convert, fields["access"], surroundings),
        completers=completers,
        **fields,
    )


def _prompt_argument(parameter: Parameter) -> PromptArgument:
    return PromptArgument(
        name=parameter.name,
        title=parameter.title,
        description=parameter.description,
        required=parameter.is_required,
    )


def _reader_of(signature: Signature, arguments: Sequence[PromptArgument]) -> Reader:
    if not all(isinstance(each, PromptArgument) for each in arguments):
        raise RegistrationError(
            f"{signature.source}: arguments= takes a list of PromptArgument(name=...)."
        )
    as_parameters = [
        Parameter(name=each.name, annotation=str, is_required=each.required) for each in arguments
    ]
    strings: Reader = read_nothing
    if as_parameters:
        conversion = adapters.adapt_strings(as_parameters, signature.source)
        strings = read_strings(conversion)
    whole = whole_reader(signature)
    return lambda given: whole(strings(given))
