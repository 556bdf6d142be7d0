"""The parts that all kinds of entries are built from: name, texts, access rules and handler.

What a client would reject or could not use is a `RegistrationError` that names the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from django_mcp.protocol.annotations import check_meta
from django_mcp.protocol.json import encode
from django_mcp.protocol.names import find_hidden_character, is_reserved_meta_key
from django_mcp.registry.access import Access, read_access, read_check
from django_mcp.registry.arguments import Handler, Reader
from django_mcp.registry.defaults import copy_defaults
from django_mcp.registry.options import EXTENSION_OPTIONS, RULES, CommonOptions
from django_mcp.registry.problems import RegistrationError, check_names, describe_source
from django_mcp.registry.returns import ResultConverter
from django_mcp.registry.rules import read_icons
from django_mcp.registry.signatures import (
    Injectables,
    Provider,
    Signature,
    hides_coroutine,
    prepare_function,
    read_signature,
)


class Providers(Struct, frozen=True, kw_only=True):
    """What a server provides to the functions registered on it."""

    injectables: Injectables
    converter: ResultConverter
    provide_user: Provider
    read_extension: Callable[[str, Any], Any]
    """Returns what is kept of an option for an extension; raises `ValueError` if it is wrong."""

    def read(self, function: Callable[..., Any]) -> Signature:
        """Return the signature of a function on this server."""
        return read_signature(function, self.injectables, self.converter.validators)


@contextmanager
def registration_errors(source: str) -> Iterator[None]:
    """Turn an error of the protocol layer into one that names the function."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{source}: {error}.") from None


def check_options(function: Any, kind: str, options: Mapping[str, Any], known: Any) -> None:
    """Check the options with which a function is registered."""
    source = describe_source(function)
    if "server" in options:
        raise RegistrationError(
            f"{source}: a {kind} has no option 'server'. Use the decorator or the method of that server, "
            f"as in @staff_server.{kind.split()[0]}."
        )
    check_names(options, known.__annotations__, f"{source}: a {kind}", RegistrationError)
    for name, value in options.items():
        if value is not None:
            RULES[name].demand(value, f"{source}: {name}=", RegistrationError)


def _check_json(what: str, value: Any) -> None:
    """Raise ValueError if a value has no form in JSON: the whole list would fail."""
    try:
        encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{what} has no form in JSON: {error}") from error


def common_fields(
    signature: Signature, options: CommonOptions, providers: Providers
) -> dict[str, Any]:
    """Return the checked fields that every entry has."""
    source, meta = signature.source, options.get("meta")
    name = options.get("name")
    if name is None:
        name = getattr(signature.function, "__name__", None)
    if not isinstance(name, str) or not name or name == "<lambda>":
        raise RegistrationError(f"{source}: it has no name. Give it one: name='...'.")
    title, description = options.get("title"), options.get("description")
    if description is None:
        description = signature.description
    for text in (
        title,
        description,
        *(parameter.description for parameter in signature.parameters),
    ):
        hidden_character = find_hidden_character(text) if isinstance(text, str) else None
        if hidden_character is not None:
            raise RegistrationError(
                f"{source}: a title or description holds {hidden_character}, which is invisible. Remove it."
            )
    with registration_errors(source):
        check_meta(meta)
        _check_json("meta=", meta)
    for key in meta or ():
        if is_reserved_meta_key(key):
            raise RegistrationError(
                f"{source}: the _meta key {key!r} is reserved for the protocol. "
                f"Use a prefix of your own, such as 'example.com/'."
            )
    return {
        "name": name,
        "title": title,
        "description": description,
        "icons": read_icons(options.get("icons") or ()),
        "meta": None if meta is None else dict(meta),
        "source": source,
        "extensions": _read_extensions(source, options, providers),
        "toolset": options.get("toolset"),
        "access": read_access(
            source,
            permission=options.get("permission"),
            scopes=options.get("scopes"),
            check=options.get("check"),
            listed_if=options.get("listed_if"),
        ),
    }


def _read_extensions(
    source: str, options: Mapping[str, Any], providers: Providers
) -> Mapping[str, Any]:
    given = dict(options.get("extensions") or {})
    for identifier, names in EXTENSION_OPTIONS.items():
        if isinstance(names, str):
            if options.get(names) is not None:
                given[identifier] = options[names]
        elif several := {name: options[name] for name in names if options.get(name) is not None}:
            given[identifier] = several
    for identifier, value in given.items():
        with registration_errors(f"{source}: extensions={{{identifier!r}: ...}}"):
            given[identifier] = providers.read_extension(identifier, value)
    return MappingProxyType(given)


def make_handler(
    signature: Signature,
    read: Reader,
    convert: Callable[..., Any],
    access: Access,
    providers: Providers,
    properties: Sequence[str] = (),
) -> Handler:
    """Return the handler of a function, with its check, its reader and its converter.

    `properties` names the arguments if the function takes all of them as one dict.
    """
    called, is_async = prepare_function(signature.function)
    # What stands for a function of the site is not what its author wrote.
    origin = getattr(signature.function, "stands_for", signature.function)
    if hides_coroutine(origin):
        raise RegistrationError(
            f"{signature.source} is asynchronous inside of a synchronous decorator, so that nobody awaits it. Write it "
            "with def, or leave the decorator out. Django has no asynchronous transactions: call a function inside of "
            "@transaction.atomic with sync_to_async."
        )
    check = access.check
    return Handler(
        function=called,
        is_async=is_async,
        injections=signature.injections,
        read=copy_defaults(read, signature.parameters),
        convert=convert,
        origin=origin,
        source=signature.source,
        returns=signature.returns,
        access=access,
        check=None
        if check is None
        else read_check(
            check,
            signature,
            is_async_handler=is_async,
            injectables=providers.injectables,
            provide_user=providers.provide_user,
            properties=properties,
        ),
    )


def whole_reader(signature: Signature, read: Reader = dict) -> Reader:
    """Return a reader that passes all arguments as the function's one parameter, if it has one.

    `read` reads them first.
    """
    if len(signature.parameters) > 1:
        raise RegistrationError(
            f"{signature.source}: it takes {listed(parameter.name for parameter in signature.parameters)}, "
            f"but is given all arguments as one dict. Take one parameter: `arguments`."
        )
    names = [parameter.name for parameter in signature.parameters]
    return lambda arguments: dict.fromkeys(names, read(arguments))


def listed(names: Iterable[str]) -> str:
    """Return names as a list for a message."""
    return ", ".join(f"`{name}`" for name in names) or "none"
