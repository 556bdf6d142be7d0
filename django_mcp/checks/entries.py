"""System checks of entries: headers, scopes, databases and URIs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags, register
from django.core.exceptions import ImproperlyConfigured

from django_mcp.conf import find_aliases, server_settings, settings
from django_mcp.servers import MCPServer, all_servers

__all__: list[str] = []

_PRIVATE = re.compile(
    r"(^|_)(password|passwd|passphrase|secret|api_?key|(access|refresh|auth|id)_token|credentials?"
    r"|ssn|iban|card_number|e_?mail|phone(_number)?)(_|$)|^token$"
)


@register("django_mcp", Tags.security)
def check_mirrored_arguments(**_kwargs: Any) -> list[CheckMessage]:
    """W010: a private argument may be repeated in a header, which proxies log.

    Source: 2026-07-28 server/tools "x-mcp-header", security considerations.
    """
    return [
        checks.Warning(
            f"{tool.source} has its callers repeat the argument {param.pointer} in the header "
            f"{param.header}, which proxies and servers write into their logs.",
            hint="Take McpHeader away from it; silence this if it is nothing private.",
            id="django_mcp.W010",
        )
        for server in all_servers()
        for tool in server.registry.tools.values()
        for param in tool.header_params
        if _PRIVATE.search(_snake(param.path[-1]))
    ]


@register("django_mcp", Tags.security)
def check_scopes(**_kwargs: Any) -> list[CheckMessage]:
    """W011: a scope looks like a wildcard, but is none.

    Source: 2025-11-25 security best practices "Scope Minimization".
    """
    return [
        checks.Warning(
            f"{source} names the scope {scope!r}, which reads as a wildcard and is none.",
            hint="Name each scope; what a broad one stands for is said by SCOPE_IMPLIES.",
            id="django_mcp.W011",
        )
        for source, scope in sorted(set(_scopes()))
        if "*" in scope
    ]


def _scopes() -> Iterator[tuple[str, str]]:
    for server in all_servers():
        try:
            needed = server.derived.requirements.scopes
        except ImproperlyConfigured:
            continue
        for guarded, scopes in needed.items():
            yield from ((guarded.source, scope) for scope in scopes)
    for key in ("SCOPE_IMPLIES", "OAUTH_BASE_SCOPES"):
        try:
            found = getattr(settings, key) or ()
        except ImproperlyConfigured:
            continue
        yield from ((f"DJANGO_MCP[{key!r}]", scope) for scope in found)


@register("django_mcp")
def check_atomic(**_kwargs: Any) -> list[CheckMessage]:
    """E011: a synchronous tool would open a transaction on a database that the site does not have."""
    known = [alias for alias, database in site_settings.DATABASES.items() if database]
    listed = ", ".join(map(repr, known)) or "none"
    return [
        Error(
            f"{source} names the database {alias!r}, which is not in DATABASES.",
            hint=f"Databases are: {listed}. False opens no transaction.",
            id="django_mcp.E011",
        )
        for source, aliases in _transactions()
        for alias in aliases
        if alias not in known
    ]


def _transactions() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what names databases, with the aliases: the setting, servers and tools."""
    try:
        of_site = find_aliases(server_settings.atomic)
        yield "DJANGO_MCP['ATOMIC']", of_site
        for server in all_servers():
            of_server = find_aliases(server.options.atomic)
            if of_server != of_site:
                yield f"The option atomic of the server {server.public_name!r}", of_server
    except ImproperlyConfigured:
        pass  # E001 reports it
    for server in all_servers():
        for tool in server.registry.tools.values():
            yield f"{tool.source}: atomic=", tool.handler.aliases or ()


@register("django_mcp", deploy=True)
def check_web_resources(**_kwargs: Any) -> list[CheckMessage]:
    """I006: a resource has a web URI, which clients may try to fetch.

    Source: 2025-11-25 server/resources "Common URI Schemes".
    """
    return [
        Info(
            f"{source} is served at {uri!r}, which tells clients that they can fetch it from the "
            "web themselves.",
            hint="Use a scheme of your own, unless they can.",
            id="django_mcp.I006",
        )
        for server in all_servers()
        for source, uri in _uris(server)
        if uri.lower().startswith(("https://", "http://"))
    ]


def _uris(server: MCPServer) -> Iterator[tuple[str, str]]:
    registry = server.registry
    yield from ((entry.source, uri) for uri, entry in registry.resources.items())
    yield from ((entry.source, str(uri)) for uri, entry in registry.templates.items())


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^0-9A-Za-z]+", "_", name).lower()
