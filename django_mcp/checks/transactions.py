"""System checks of the transactions that tools run in, and of their databases."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings as site_settings
from django.core.checks import CheckMessage, Error, Info

from django_mcp.checks.declared import check
from django_mcp.conf import find_databases, server_settings, site_aliases
from django_mcp.registry.entries import ToolEntry
from django_mcp.servers import all_servers


@check(id="django_mcp.E011")
def check_atomic() -> Iterator[CheckMessage]:
    """E011: a synchronous tool would open a transaction on a database that the site does not have."""
    known = find_databases()
    listed = ", ".join(map(repr, known)) or "none"
    for source, aliases in _transactions():
        for alias in aliases:
            if alias not in known:
                yield Error(
                    f"{source} names the database {alias!r}, which is not in DATABASES.",
                    hint=f"Databases are: {listed}. False opens no transaction.",
                )


def _transactions() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what names databases, with the aliases: tools, the setting, and servers."""
    for server in all_servers():
        for tool in server.registry.tools.values():
            yield f"{tool.source}: atomic=", tool.handler.aliases or ()
    of_site = site_aliases(server_settings.atomic)
    yield "DJANGO_MCP['ATOMIC']", of_site
    for server in all_servers():
        of_server = site_aliases(server.options.atomic)
        if of_server != of_site:
            yield f"The option atomic of the server {server.name!r}", of_server


def find_atomic_tools() -> Iterator[tuple[ToolEntry, tuple[str, ...]]]:
    """Yield the tools that get a transaction, with the databases that it is on."""
    for server in all_servers():
        of_server = site_aliases(server.options.atomic)
        for tool in server.registry.tools.values():
            aliases = of_server if tool.handler.aliases is None else tool.handler.aliases
            if aliases:
                yield tool, aliases


@check(id="django_mcp.I003")
def check_writers() -> Iterator[CheckMessage]:
    """I003: tools that write to SQLite at the same time."""
    for alias in dict.fromkeys(
        alias for _tool, aliases in find_atomic_tools() for alias in aliases
    ):
        database = site_settings.DATABASES.get(alias) or {}
        name = str(database.get("NAME"))
        is_in_memory = name == ":memory:" or "mode=memory" in name
        if is_in_memory or "sqlite" not in database.get("ENGINE", ""):
            continue
        mode = (database.get("OPTIONS") or {}).get("transaction_mode", "")
        if str(mode).upper() != "IMMEDIATE":
            yield Info(
                f"On the SQLite database {alias!r}, tools that write at the same time can fail with "
                "'database is locked'.",
                hint="Set its OPTIONS to {'transaction_mode': 'IMMEDIATE', 'timeout': 20}.",
            )
