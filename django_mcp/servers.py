"""Servers of a Django site: the core's server, with Django and the settings of `DJANGO_MCP`.

Only this module joins the two. Importing it loads no models.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings as site_settings
from django.utils.functional import cached_property
from django.utils.module_loading import import_string
from django.utils.translation import get_language

from django_mcp.auth.access import DjangoAccess
from django_mcp.auth.gate import Gate, load_authenticators
from django_mcp.auth.throttles import count_in_cache
from django_mcp.calls.recorder import record_call
from django_mcp.conf import KEYWORDS, SETTINGS, server_settings, settings
from django_mcp.context import Context, find_django_provider
from django_mcp.execution.states import SiteSealer, SiteStates
from django_mcp.execution.threads import ThreadScope, answer_leasing, run_in_pool
from django_mcp.execution.values import DjangoConverter, DjangoExceptions, make_django_form
from django_mcp.inprocess.methods import InProcess
from django_mcp.known_servers import known_servers, remember
from django_mcp.middleware import GetReply, load_middleware
from django_mcp.process import reset_on
from django_mcp.protocol.results import CacheHint
from django_mcp.push.clients import SignalObserver, SiteClientMethods
from django_mcp.push.process_hub import process_hub
from django_mcp.push.upkeep import check_all
from django_mcp.registry.signatures import Provider
from django_mcp.server.core import Core
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.options import OPTIONS, Options
from django_mcp.server.services import ports
from django_mcp.server.setting import LIST_METHODS, Scope, check_options
from django_mcp.signals import tool_called

if TYPE_CHECKING:
    from django.urls import URLPattern

_MAX_STEP_S = 0.1
"""As asyncio's debug mode has it for callbacks."""

_OF_GATE = ("public", "authenticators")
"""Keywords for access to a server, which are no options of the core's server."""


class SiteCore(Core):
    """The core of a site's server, with Django, the database and the settings of `DJANGO_MCP`."""

    context_class = Context

    def __init__(self, name: str | None, options: dict[str, Any], access: dict[str, Any]) -> None:
        self.hub = process_hub()
        super().__init__()
        self.given_name = name
        self._given = options
        self._given_access = access
        self._get_reply: GetReply | None = None
        self.scope = ThreadScope()
        self.access = DjangoAccess(
            authenticators=lambda: self.gate.authenticators if self.gate is not None else (),
            server_name=lambda: self.name,
        )
        self.counter = count_in_cache
        self.exceptions = DjangoExceptions()
        self.sealer = SiteSealer()
        self.states = SiteStates()
        self.find_language = get_language
        self.converter = DjangoConverter()
        self.make_form = make_django_form

    def find_observer(self) -> ports.Observer | None:
        """Return the recorder of calls, if they are recorded or a signal has receivers."""
        return self.observer if settings.RECORD_CALLS or tool_called.receivers else None

    @property
    def is_default(self) -> bool:
        """Whether this server is the one that `DJANGO_MCP` describes."""
        return self.given_name is None

    @cached_property
    def options(self) -> Options:
        """The current options: those given to the server, else from `DJANGO_MCP`."""
        self.max_step_s = _MAX_STEP_S if site_settings.DEBUG else None
        scopes = {Scope.BOTH, Scope.OWN} if self.is_default else {Scope.BOTH}
        found = {
            option: getattr(server_settings, option)
            for option, setting in OPTIONS.items()
            if setting.scope in scopes
        }
        found.update(self._given, name=self.given_name or server_settings.name)
        ttl_ms = settings.LIST_TTL_MS
        of_site = dict.fromkeys(LIST_METHODS, CacheHint(ttl_ms=ttl_ms)) if ttl_ms else {}
        found["list_cache"] = {**of_site, **self.list_hints}
        return Options(**found)

    # The stores are imported on first use: they load models, which importing a server must not.

    @cached_property
    def sessions(self) -> ports.SessionStore:
        if settings.SESSION_STORE == "memory":
            return super().sessions
        from django_mcp.sessions.store import DatabaseSessions

        return DatabaseSessions(self)

    @cached_property
    def pending_responses(self) -> ports.PendingResponses:
        if settings.SESSION_STORE == "memory":
            return super().pending_responses
        from django_mcp.sessions.messages import DatabasePendingResponses

        return DatabasePendingResponses()

    @cached_property
    def events(self) -> ports.EventLog:
        if settings.SESSION_STORE == "memory":
            return super().events
        from django_mcp.sessions.messages import DatabaseEvents

        return DatabaseEvents()

    @cached_property
    def tasks(self) -> ports.TaskStore:
        if settings.TASK_STORE == "memory":
            return super().tasks
        from django_mcp.tasks.store import DatabaseTasks

        return DatabaseTasks()

    @cached_property
    def runner(self) -> ports.TaskRunner:
        made: ports.TaskRunner = import_string(settings.TASK_RUNNER)()
        return made

    def answer(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Return the reply to one POST, or one line, inside of `DJANGO_MCP["MIDDLEWARE"]`."""
        get_reply = self._get_reply
        if get_reply is None:
            # Loads `django.db`, which importing a server must not.
            from django_mcp.serving import find_serving_app

            app = find_serving_app()
            if app is not None:
                # With the view alone, this package runs nothing before the first request.
                app.prepare(is_http=exchange.headers is not None)
            get_reply = self._get_reply = load_middleware(settings.MIDDLEWARE, self._load_answer())
        return answer_leasing(get_reply, exchange)

    def open_stream(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """See `Core.open_stream`."""
        return answer_leasing(super().open_stream, exchange)

    def end_session(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """See `Core.end_session`."""
        return answer_leasing(super().end_session, exchange)

    @cached_property
    def gate(self) -> Gate | None:
        """The authentication of requests over HTTP; None: all requests are anonymous."""
        found: dict[str, Any] = {"public": False, "authenticators": ()}
        if self.is_default:
            found = {option: getattr(settings, option.upper()) for option in _OF_GATE}
        found.update(self._given_access)
        authenticators = load_authenticators(found["authenticators"])
        if found["public"] and not authenticators:
            return None
        remedy = (
            "Set DJANGO_MCP['AUTHENTICATORS'] to say who may call it, or DJANGO_MCP['PUBLIC'] "
            "to True if everybody may."
            if self.is_default
            else f"Give MCPServer({self.given_name!r}) authenticators=[...] to say who may call it, "
            "or public=True if everybody may."
        )
        return Gate(self, authenticators, is_public=found["public"], remedy=remedy)

    @property
    def authenticate(self) -> Callable[[Exchange], Awaitable[Reply | None]] | None:
        """Authenticates a request before its body is read; None: all requests are anonymous."""
        return None if self.gate is None else self.gate.authenticate

    @property
    def is_public(self) -> bool:
        """Whether all callers are served alike, so that responses may be shared."""
        gate = self.gate
        return gate is None or gate.is_public

    def forget_settings(self) -> None:
        """Make everything that depends on settings again on its next use; registrations stay."""
        self._get_reply = None
        for name in vars(self).keys() & _MADE_ON_FIRST_USE:
            del vars(self)[name]


_MADE_ON_FIRST_USE = frozenset(
    name
    for base in SiteCore.__mro__
    for name, value in vars(base).items()
    if isinstance(value, cached_property | functools.cached_property)
)
"""The attributes of a core that are made from the settings."""


class MCPServer(InProcess, SiteClientMethods):
    """A server of this site, with its own tools, resources and prompts.

    Mount it as an admin site is mounted: `path("staff/", staff_server.urls)` serves it at
    `/staff/mcp`.

    It serves HTTP only with `public=True`, or `authenticators=[...]`, or both for optional
    authentication.

    Args:
        name: the name for clients, unique in the site; without one it is the server that `DJANGO_MCP`
            describes, as the default server is.
        options: title, description, instructions and so on, and overrides of `DJANGO_MCP` in lower
            case (`call_timeout_s=5`).

    Raises:
        TypeError: there is no such option; the text suggests the nearest one.
        ValueError: an option has a wrong value; the text lists the allowed ones.
    """

    core: SiteCore

    def __init__(self, name: str | None = None, **options: Any) -> None:
        given = options if name is None else {"name": name, **options}
        for option in given:
            setting = SETTINGS.get(option.upper())
            if setting is not None and setting.scope is Scope.SITE:
                raise TypeError(
                    f"MCPServer() has no option {option!r}. Set DJANGO_MCP[{option.upper()!r}], "
                    "which is for the whole site."
                )
        check_options(given, KEYWORDS)
        access = {key: options.pop(key) for key in _OF_GATE if key in options}
        super().__init__(SiteCore(name, options, access))
        self.core.observer = partial(record_call, self)
        self.core.connection_observer = SignalObserver(self)
        remember(self)

    def __repr__(self) -> str:
        return f"<MCPServer {self.core.given_name or '(default)'}>"

    async def _is_subscribed_elsewhere(self, uri: str) -> bool:
        if settings.SESSION_STORE == "memory":
            return False
        from django_mcp.push.stream_rows import is_any_listening
        from django_mcp.sessions.rows import is_any_subscribed

        return await run_in_pool(
            lambda: is_any_subscribed(self.name, uri) or is_any_listening(self.name, uri)
        )

    def _provide_user(self, ctx: Any) -> Any:
        return ctx.user

    def _find_provider(self, annotation: Any) -> Provider | None:
        return super()._find_provider(annotation) or find_django_provider(annotation)

    @property
    def urls(self) -> tuple[list[URLPattern], str, str]:
        """The URLs for `path()`, as of an admin site: `mcp` and `mcp/health` below its prefix."""
        # Loads `django.db`, which importing a server must not.
        from django_mcp.serving import UninstalledPattern, find_serving_app

        app = find_serving_app()
        patterns: list[URLPattern] = (
            [UninstalledPattern()] if app is None else app.patterns_of(self)
        )
        return patterns, "django_mcp", self.core.given_name or "django_mcp"


def all_servers() -> list[MCPServer]:
    """Return the servers of this process, the default one first, the others by name."""
    found = cast("list[MCPServer]", known_servers())
    return sorted(found, key=lambda server: server.core.given_name or "")


def _forget_settings() -> None:
    for server in all_servers():
        server.core.forget_settings()


reset_on(_forget_settings, settings=("DJANGO_MCP", "DEBUG"))


process_hub().on_tick.append(check_all)

default_server = MCPServer()
"""The server that `include("django_mcp.urls")` serves at `/mcp`."""

tool = default_server.tool
resource = default_server.resource
prompt = default_server.prompt
completion = default_server.completion

notify = default_server.notify
anotify = default_server.anotify
notify_list_changed = default_server.notify_list_changed
anotify_list_changed = default_server.anotify_list_changed
notify_resource_updated = default_server.notify_resource_updated
anotify_resource_updated = default_server.anotify_resource_updated
