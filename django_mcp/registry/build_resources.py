"""Build resources and resource templates from functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Unpack

from django_mcp.protocol.annotations import Annotations, check_optional_mime_type, check_uri
from django_mcp.protocol.uri_template import UriTemplate
from django_mcp.registry import hints
from django_mcp.registry.arguments import Reader, read_nothing
from django_mcp.registry.build_completers import choice_completers
from django_mcp.registry.building import (
    Surroundings,
    common_fields,
    listed,
    make_handler,
    registration_errors,
    string_reader,
)
from django_mcp.registry.entries import ResourceEntry, TemplateEntry
from django_mcp.registry.options import TemplateOptions
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.replies import guess_mime_type, resource_converter
from django_mcp.registry.returns import find_output
from django_mcp.registry.signatures import Signature


def build_resource(
    function: Callable[..., Any],
    surroundings: Surroundings,
    uri: str,
    *,
    size: int | None = None,
    **options: Unpack[TemplateOptions],
) -> ResourceEntry:
    """Return a resource at one URI."""
    signature = surroundings.read(function)
    source = signature.source
    if signature.parameters:
        given = ", ".join(f"`{each.name}`" for each in signature.parameters)
        raise RegistrationError(
            f"{source}: the URI {uri!r} has no variables, so nothing gives {given}. "
            f"Put {{{signature.parameters[0].name}}} into the URI, or drop the parameter."
        )
    with registration_errors(source):
        check_uri(uri)
        if not uri.isascii():
            raise ValueError(f"{uri!r} is not a URI: percent-encode what is not ASCII")
        if size is not None and (type(size) is not int or size < 0):
            raise ValueError(f"size is {size!r}: use a number of bytes")
    return ResourceEntry(
        uri=uri,
        size=size,
        **_readable(surroundings, signature, read_nothing, options),
    )


def build_template(
    function: Callable[..., Any],
    surroundings: Surroundings,
    uri_template: str,
    **options: Unpack[TemplateOptions],
) -> TemplateEntry:
    """Return a resource template, whose variables are the function's parameters."""
    signature = surroundings.read(function)
    source = signature.source
    with registration_errors(source):
        template = UriTemplate(uri_template)
        check_uri(re.sub(r"\{.*?\}", "", template.text))
    _check_variables(template, signature)
    read = string_reader(signature, template.list_variables)
    return TemplateEntry(
        template=template,
        **_readable(surroundings, signature, read, options),
        completers=choice_completers(signature),
    )


def _readable(
    surroundings: Surroundings, signature: Signature, read: Reader, options: TemplateOptions
) -> dict[str, Any]:
    fields = common_fields(signature, options)
    mime_type, annotations = options.get("mime_type"), options.get("annotations")
    with registration_errors(signature.source):
        check_optional_mime_type(mime_type)
    if annotations is not None and not isinstance(annotations, Annotations):
        raise RegistrationError(f"{signature.source}: annotations= takes Annotations(...).")
    converter = surroundings.converter
    output = find_output(signature.returns, signature.source, converter)
    convert = resource_converter(converter, mime_type, output)
    return {
        **fields,
        "handler": make_handler(signature, read, convert, fields["access"], surroundings),
        "mime_type": mime_type or guess_mime_type(signature.returns),
        "annotations": annotations,
        "cache": options.get("cache"),
    }


def _check_variables(template: UriTemplate, signature: Signature) -> None:
    source, variables = signature.source, template.variables
    parameters = {each.name: each for each in signature.parameters}
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
