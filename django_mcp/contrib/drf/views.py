"""`viewset_tools`: the actions of Django REST framework's views as tools."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.protocol.json import JSONObject
from django_mcp.registry.access import Permission

if TYPE_CHECKING:
    from django_mcp.registry.entries import ToolEntry
    from django_mcp.servers import MCPServer


def viewset_tools(
    view: Any,
    *,
    server: MCPServer | None = None,
    actions: Collection[str] | None = None,
    exclude: Collection[str] = (),
    prefix: str | None = None,
    names: Mapping[str, str] | None = None,
    descriptions: Mapping[str, Any] | None = None,
    annotations: Mapping[str, Mapping[str, Any]] | None = None,
    serializers: Mapping[str, Any] | None = None,
    query: Mapping[str, Mapping[str, JSONObject]] | None = None,
    path: Mapping[str, JSONObject] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    rename: Mapping[str, str] | None = None,
    auth: Callable[[Any], Any] | None = None,
    permission: Permission = None,
    scopes: str | Sequence[str] | None = None,
    check: Callable[..., Any] | None = None,
    listed_if: Callable[..., Any] | None = None,
    max_results: int = 100,
    toolset: str | None = None,
    app: bool = False,
) -> list[ToolEntry]:
    """Register the actions of a view as tools, one tool for each action.

    Each call runs a fresh instance of the view in process, with the user of the MCP request. The
    view's own permissions, throttles, filters, pagination, versioning and serializers apply.
    Its authentication classes and its CSRF check do not run: the server has authenticated the user.
    An action that only these classes guard, since its permission classes let everybody pass, is not
    listed and cannot be called without `auth`; `manage.py check` says so.

    Args:
        view: a `ViewSet`, a generic view or an `APIView`: the class. A function with `@api_view`, or what
            `as_view()` returned: of a view set, the actions that it names become tools.
        server: gets the tools; by default the default server.
        actions: those that become tools: names of a view set's actions, such as `"list"`, or
            of an `APIView`'s methods, such as `"get"`. An action with several methods has its name for
            the first, and `"{name}_{method}"` for the others. By default all, but for those that ask for
            a password, sign in or out, or give out tokens.
        exclude: actions that do not become tools.
        prefix: what the names of all tools begin with, before an underscore, in place of the name of the
            model, or of the view; `""`: nothing.
        names: names of tools by action, without `prefix`.
        descriptions: of tools by action; may be lazy.
        annotations: hints and titles of tools by action, such as
            `{"ship": {"idempotent": True}}`.
        serializers: the serializer class of the data that an action reads, by action; None: it
            reads none. For actions whose view does not tell.
        query: parameters of the query string of an action that the view does not tell, as JSON
            Schemas: `{"recent": {"days": {"type": "integer"}}}`.
        path: JSON Schemas of further variables of the URL, which become arguments.
        kwargs: variables of the URL that are the same for each call, such as a version.
        rename: other names for arguments that clash, by `"path.name"`, `"query.name"` or
            `"body.name"`.
        auth: a function of the request, asynchronous or not, that takes the place of the view's
            authentication classes: it returns the user that the view gets, or None to refuse the
            call. `request.user` is the user of the MCP request.
        permission: needed in addition to what the view asks for.
        scopes: OAuth scopes that a token needs for each tool.
        check: a function of the user and the arguments that a call has to pass in addition.
        listed_if: a function of the user that says whether the tools are listed, in place of the
            view's permission classes. These still decide about each call.
        max_results: rows of a page, and of a list without pages, at most.
        toolset: of all tools; by default the label of the app that the view is in.
        app: whether hosts with MCP Apps show ready-made pages with the tools: tables and cards. A deletion then asks
            before it runs; see `confirm` of `ToolOptions`.

    The URLs of the view are read when the server is first used or checked: they tell further variables of
    the URL, and further actions.

    Returns:
        The tools. An action that cannot become one is left out, and `manage.py check` says why. The list
        changes when the URLs are read.

    Raises:
        ImproperlyConfigured: Django REST framework is not installed, or an action does not exist.
        RegistrationError: an option does not fit.
    """
    try:
        import rest_framework  # noqa: F401
    except ImportError as error:
        raise ImproperlyConfigured(
            "viewset_tools() needs Django REST framework: pip install 'django-mcp-endpoints[drf]'"
        ) from error
    from django_mcp.contrib.all_or_nothing import all_or_nothing
    from django_mcp.contrib.drf.actions import read_view
    from django_mcp.contrib.drf.registering import ToolsOfView
    from django_mcp.contrib.generated import GeneratedOptions, check_actions, check_rules
    from django_mcp.servers import choose_server

    server = choose_server(server)
    view_class = read_view(view, serializers=serializers or {}, kwargs=kwargs or {}, auth=auth)
    check_rules(
        f"viewset_tools(): {view_class.source.__qualname__}",
        permission=permission,
        check=check,
        listed_if=listed_if,
        auth=auth,
    )
    known = view_class.find_actions()
    names_of_options = [
        option
        for option in (actions, exclude, names, descriptions, annotations, serializers, query)
        if option is not None
    ]
    named = {name for option in names_of_options for name in option}
    # Only the URLconf tells which other functions as_view() has bound; it is read later.
    further = [name for name in view_class.further_names if name in named]
    check_actions(
        f"viewset_tools(): {view_class.source.__qualname__}",
        list(dict.fromkeys([*(action.key for action in known), *further])),
        actions=actions,
        exclude=exclude,
        names=names,
        descriptions=descriptions,
        annotations=annotations,
        serializers=serializers,
        query=query,
    )
    options = GeneratedOptions(
        include=actions,
        exclude=exclude,
        prefix=prefix or "",
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
    tools = ToolsOfView(
        server,
        view_class,
        options,
        is_named_by_view=prefix is None,
        query=query or {},
        path=path or {},
        rename=rename or {},
        listed_if=listed_if,
    )
    with all_or_nothing(server):
        tools.register(known)
    server._finish_later(tools.finish)
    return tools.entries
