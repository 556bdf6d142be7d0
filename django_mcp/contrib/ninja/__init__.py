"""`operation_tools`: the operations of a Django Ninja API as tools. Needs the extra `ninja`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.registry.access import Permission

if TYPE_CHECKING:
    from django_mcp.registry.entries import ToolEntry
    from django_mcp.servers import MCPServer

__all__ = ["operation_tools"]


def operation_tools(
    api: Any,
    *,
    server: MCPServer | None = None,
    tags: Collection[str] | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    prefix: str = "",
    names: Mapping[str, str] | None = None,
    descriptions: Mapping[str, Any] | None = None,
    annotations: Mapping[str, Mapping[str, Any]] | None = None,
    rename: Mapping[str, str] | None = None,
    auth: Callable[[Any], Any] | Mapping[Any, Callable[[Any], Any]] | None = None,
    permission: Permission = None,
    scopes: str | Sequence[str] | None = None,
    check: Callable[..., Any] | None = None,
    listed_if: Callable[..., Any] | None = None,
    max_results: int = 100,
    toolset: str | None = None,
    app: bool = False,
) -> list[ToolEntry]:
    """Register the operations of a Django Ninja API as tools, one tool for each operation.

    Each call runs the operation in process, with the user of the MCP request. Its throttles,
    decorators, parameters and response schemas apply, and the permissions of controllers of
    django-ninja-extra. An operation is known by its `operation_id`, else by the name of its function. Of several
    with one name, each begins with the prefix of its router.

    Session authentication of Django Ninja is asked about this user, and so are functions that do not look for
    credentials. Other authentication reads these, which the server has done already; `auth` says what it
    comes to.

    Args:
        api: a `NinjaAPI` whose routers have been added.
        server: gets the tools; by default the default server.
        tags: only operations with one of these tags.
        include: the operations that become tools; by default all that the API's schema shows, except those
            about passwords, tokens and sign-ins.
        exclude: operations that do not.
        prefix: what the names of all tools begin with, before an underscore.
        names: names of tools by operation, without `prefix`.
        descriptions: of tools by operation; may be lazy.
        annotations: hints and titles of tools by operation.
        rename: other names for arguments that clash, by `"path.name"`, `"query.name"` or
            `"body.name"`.
        auth: a function of the request, asynchronous or not, that takes the place of the
            operations' authentication unless that is of sessions. What it returns becomes `request.auth`; something false
            refuses the request, and hides the tool. If the operations have different
            authentication, a function for each, by what they were given as `auth=` or by its
            class: `{StaffToken: is_staff, CustomerToken: is_customer}`.
        permission: needed in addition to what the operation asks for.
        scopes: OAuth scopes that a token needs for each tool.
        check: a function of the user and the arguments that a call has to pass in addition.
        listed_if: a function of the user that says whether the tools are listed, in place of the
            authentication. This still decides about each call.
        max_results: rows of a list, and of a page, at most.
        toolset: of all tools; by default the label of the app that the function of the operation is in.
        app: whether hosts with MCP Apps show ready-made pages with the tools: tables and cards. A deletion then asks
            before it runs; see `confirm` of `ToolOptions`.

    Returns:
        The tools. An operation that cannot become one is left out, and `manage.py check` says why.

    Raises:
        ImproperlyConfigured: Django Ninja is not installed, or an operation does not exist.
        RegistrationError: an option does not fit.
    """
    try:
        import ninja  # noqa: F401
    except ImportError as error:
        raise ImproperlyConfigured(
            "operation_tools() needs Django Ninja: pip install 'django-mcp-endpoints[ninja]'"
        ) from error
    from django_mcp.contrib.all_or_nothing import all_or_nothing
    from django_mcp.contrib.generated import GeneratedOptions, check_actions, check_rules
    from django_mcp.contrib.ninja.operations import Operations
    from django_mcp.servers import choose_server

    server = choose_server(server)
    operations = Operations(api, tags=tags, auth=auth)
    check_rules(
        "operation_tools()", permission=permission, check=check, listed_if=listed_if, auth=auth
    )
    check_actions(
        "operation_tools(): the API",
        sorted(operations.names),
        kind="operation",
        include=include,
        exclude=exclude,
        names=names,
        descriptions=descriptions,
        annotations=annotations,
    )
    options = GeneratedOptions(
        include=operations.shown if include is None else include,
        exclude=exclude,
        prefix=prefix,
        names=names or {},
        descriptions=descriptions or {},
        annotations=annotations or {},
        permission=permission,
        scopes=scopes,
        check=check,
        max_results=max_results,
        toolset=toolset,
        app=app,
    )
    with all_or_nothing(server):
        return operations.register(
            server,
            options,
            named=include or (),
            rename=rename or {},
            listed_if=listed_if,
        )
