"""System checks of the values in `DJANGO_MCP`."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings as site_settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from django_mcp.checks.declared import check
from django_mcp.conf import find_aliases, find_problems, server_settings, settings
from django_mcp.middleware import load_middleware
from django_mcp.servers import all_servers
from django_mcp.tasks.runners import load_runner

__all__: list[str] = []


@check()
def check_settings() -> Iterator[CheckMessage]:
    """E001, E002: a wrong value, an unknown key."""
    for problem in find_problems(getattr(site_settings, "DJANGO_MCP", {})):
        id_ = "django_mcp.E002" if problem.is_unknown else "django_mcp.E001"
        yield Error(problem.message, hint=problem.hint, id=id_)


@check(id="django_mcp.E003")
def check_middleware() -> Iterator[CheckMessage]:
    """E003: middleware in `DJANGO_MCP` cannot be loaded."""
    paths = settings.MIDDLEWARE
    try:
        load_middleware(paths, all_servers()[0].answer)
    except ImproperlyConfigured as error:
        yield Error(str(error), hint="Name factories by dotted path.")


@check(id="django_mcp.E008")
def check_session_data() -> Iterator[CheckMessage]:
    """E008: data of sessions would be in cookies, which MCP clients do not have."""
    is_in_cookies = site_settings.SESSION_ENGINE.endswith(".signed_cookies")
    if is_in_cookies and settings.SESSION_DATA == "session_engine":
        yield Error(
            "DJANGO_MCP['SESSION_DATA'] is 'session_engine', and SESSION_ENGINE keeps sessions in "
            "cookies: ctx.session would forget everything.",
            hint="Take a SESSION_ENGINE that keeps them on the server, or SESSION_DATA 'model'.",
        )


@check(id="django_mcp.E009")
def check_runner() -> Iterator[CheckMessage]:
    """E009: the task runner cannot be loaded."""
    path = settings.TASK_RUNNER
    try:
        load_runner(path)
    except (ImportError, ImproperlyConfigured, TypeError) as error:
        yield Error(
            f"DJANGO_MCP['TASK_RUNNER'] cannot be loaded: {error}",
            hint="Name a class that takes no arguments, and install what it needs.",
        )


@check(id="django_mcp.E011")
def check_atomic() -> Iterator[CheckMessage]:
    """E011: a synchronous tool would open a transaction on a database that the site does not have."""
    known = [alias for alias, database in site_settings.DATABASES.items() if database]
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
    of_site = find_aliases(server_settings.atomic)
    yield "DJANGO_MCP['ATOMIC']", of_site
    for server in all_servers():
        of_server = find_aliases(server.options.atomic)
        if of_server != of_site:
            yield f"The option atomic of the server {server.name!r}", of_server
