"""Build resources, resource templates, prompts, and the completers of their arguments from functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from django_mcp.protocol.annotations import check_uri
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.protocol.results import Completion
from django_mcp.protocol.uri_template import UriTemplate
from django_mcp.registry import adapters, hints
from django_mcp.registry.access import OPEN, Access
from django_mcp.registry.arguments import (
    Handler,
    Reader,
    first_problems,
    read_nothing,
    read_typed,
)
from django_mcp.registry.building import (
    Providers,
    common_fields,
    listed,
    make_handler,
    registration_errors,
    whole_reader,
)
from django_mcp.registry.defaults import check_defaults
from django_mcp.registry.entries import PromptArgument, PromptEntry, ResourceEntry, TemplateEntry
from django_mcp.registry.field_validators import ValueRules
from django_mcp.registry.options import CommonOptions, TemplateOptions
from django_mcp.registry.problems import ArgumentErrors, Problem, RegistrationError, show
from django_mcp.registry.replies import (
    completion_converter,
    guess_mime_type,
    prompt_converter,
    resource_converter,
)
from django_mcp.registry.returns import find_output
from django_mcp.registry.signatures import Parameter, Signature

COMPLETER_PARAMETERS = ("value", "arguments")
"""Parameters of a completer of one argument: the text so far, and the other arguments."""

GLOBAL_COMPLETER_PARAMETERS = ("ref", "argument", *COMPLETER_PARAMETERS)
"""Parameters of the global completer, which also gets the reference and the argument's name."""


# -- resources


def build_resource(
    function: Callable[..., Any],
    providers: Providers,
    uri: str,
    *,
    size: int | None = None,
    **options: Unpack[TemplateOptions],
) -> ResourceEntry:
    """Return a resource at one URI."""
    signature = providers.read(function)
    source = signature.source
    if signature.parameters:
        raise RegistrationError(
            f"{source}: the URI {uri!r} has no variables, so nothing gives "
            f"{listed(parameter.name for parameter in signature.parameters)}. "
            f"Put {{{signature.parameters[0].name}}} into the URI, or drop the parameter."
        )
    with registration_errors(source):
        check_uri(uri)
        # RFC 3986 leaves them out, and variables of Django's paths have them.
        if "<" in uri or ">" in uri:
            raise ValueError(
                f"{uri!r} has angle brackets: a variable of a URI is written as {{pk}}"
            )
        if not uri.isascii():
            raise ValueError(f"{uri!r} is not a URI: percent-encode what is not ASCII")
    return ResourceEntry(
        uri=uri,
        size=size,
        **_readable(providers, signature, read_nothing, options),
    )


def build_template(
    function: Callable[..., Any],
    providers: Providers,
    uri_template: str,
    **options: Unpack[TemplateOptions],
) -> TemplateEntry:
    """Return a resource template, whose variables are the function's parameters."""
    signature = providers.read(function)
    source = signature.source
    with registration_errors(source):
        template = UriTemplate(uri_template)
        check_uri(re.sub(r"\{.*?\}", "", template.text))
    _check_variables(template, signature)
    read = _string_reader(
        signature.parameters, source, providers.converter, template.list_variables
    )
    return TemplateEntry(
        template=template,
        **_readable(providers, signature, read, options),
        completers=_choice_completers(signature),
    )


def _string_reader(
    parameters: Sequence[Parameter],
    source: str,
    rules: ValueRules,
    lists: frozenset[str] = frozenset(),
) -> Reader:
    """Return a reader of string arguments, which expects lists of strings for `lists`."""
    if not parameters:
        return read_nothing
    convert = read_typed(adapters.adapt_strings(parameters, source, rules, lists))
    check_defaults(parameters, source)

    def read(arguments: JSONObject) -> dict[str, Any]:
        wrong = first_problems(
            Problem(to_pointer([name]), f"must be a string, not {show(value)}")
            for name, value in arguments.items()
            if type(value) is not str and name not in lists
        )
        if wrong:
            raise ArgumentErrors(wrong)
        return convert(arguments)

    return read


def _readable(
    providers: Providers, signature: Signature, read: Reader, options: TemplateOptions
) -> dict[str, Any]:
    fields = common_fields(signature, options, providers)
    mime_type = options.get("mime_type")
    converter = providers.converter
    output = find_output(signature.returns, signature.source, converter)
    convert = resource_converter(converter, mime_type, output, signature.source)
    return {
        **fields,
        "handler": make_handler(signature, read, convert, fields["access"], providers),
        "mime_type": mime_type or guess_mime_type(signature.returns),
        "annotations": options.get("annotations"),
        "cache": options.get("cache"),
    }


def _check_variables(template: UriTemplate, signature: Signature) -> None:
    source, variables = signature.source, template.variables
    parameters = {parameter.name: parameter for parameter in signature.parameters}
    missing = [name for name in variables if name not in parameters]
    extra = [name for name in parameters if name not in variables]
    if missing or extra:
        raise RegistrationError(
            f"{source}: the variables of {template.text!r} are {listed(variables)}, but its "
            f"parameters are {listed(parameters)}. Give both the same names."
        )
    for name, parameter in parameters.items():
        if name in template.optional_variables and parameter.is_required:
            raise RegistrationError(
                f"{source}: a URI may leave out {{{name}}} of {template.text!r}. "
                f"Give the parameter `{name}` a default."
            )
        is_list = name in template.list_variables
        annotation = hints.strip(parameter.annotation)
        if is_list and annotation is not Any and not hints.is_structured(annotation):
            raise RegistrationError(
                f"{source}: {{{name}*}} of {template.text!r} is a list of strings. "
                f"Annotate the parameter as one: `{name}: list[str]`."
            )


# -- prompts


def build_prompt(
    function: Callable[..., Any],
    providers: Providers,
    *,
    arguments: Sequence[PromptArgument] | None = None,
    **options: Unpack[CommonOptions],
) -> PromptEntry:
    """Return a prompt, whose arguments are the function's parameters unless they are given.

    With `arguments` the function takes all of them as one dict of strings, as its only parameter.
    """
    signature = providers.read(function)
    if arguments is None:
        published = tuple(
            PromptArgument(
                name=parameter.name,
                title=parameter.title,
                description=parameter.description,
                required=parameter.is_required,
            )
            for parameter in signature.parameters
        )
        read = _string_reader(signature.parameters, signature.source, providers.converter)
        completers = _choice_completers(signature)
    else:
        published = tuple(arguments)
        if not all(isinstance(argument, PromptArgument) for argument in published):
            raise RegistrationError(
                f"{signature.source}: arguments= takes a list of PromptArgument(name=...)."
            )
        parameters = [
            Parameter(name=argument.name, annotation=str, is_required=argument.required)
            for argument in published
        ]
        read = whole_reader(
            signature, _string_reader(parameters, signature.source, providers.converter)
        )
        completers = {}
    fields = common_fields(signature, options, providers)
    convert = prompt_converter(providers.converter)
    return PromptEntry(
        arguments=published,
        handler=make_handler(signature, read, convert, fields["access"], providers),
        completers=completers,
        **fields,
    )


# -- completers


def build_completer(
    function: Callable[..., Any],
    providers: Providers,
    known: Sequence[str] = COMPLETER_PARAMETERS,
    access: Access = OPEN,
) -> Handler:
    """Return a completer from a function that takes any of the known parameters."""
    signature = providers.read(function)
    names = [parameter.name for parameter in signature.parameters]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise RegistrationError(
            f"{signature.source}: a completer does not receive {listed(unknown)}. "
            f"It may take {listed(known)}, and what is injected by its type."
        )
    convert = completion_converter(providers.converter)
    return make_handler(
        signature,
        lambda arguments: {name: arguments[name] for name in names},
        convert,
        access,
        providers,
    )


def _choice_completers(signature: Signature) -> dict[str, Handler]:
    """Return completers for the parameters whose types list their values."""
    completers = {}
    for parameter in signature.parameters:
        choices = hints.find_choices(parameter.annotation)
        if choices is not None:
            completers[parameter.name] = _complete_from(list(choices), signature.source)
    return completers


def _complete_from(choices: list[str], source: str) -> Handler:
    # Asynchronous, so that it does not need a thread.
    async def propose(value: str) -> Completion:
        return Completion.matching(value, choices)

    return Handler(
        function=propose,
        is_async=True,
        injections={},
        read=lambda arguments: {"value": arguments["value"]},
        convert=lambda completion: completion,
        origin=propose,
        source=source,
    )
