"""Servers of a Django site: the core's server, with Django and the settings of `DJANGO_MCP`.

Only this module joins the two. Importing it loads no models.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_mcp.auth.access import DjangoAccess
from django_mcp.auth.gate import Gate, load_authenticators
from django_mcp.auth.throttles import CacheCounter
from django_mcp.calls.recorder import CallRecorder
from django_mcp.conf import KEYWORDS, SETTINGS, server_settings, settings
from django_mcp.context import Context
from django_mcp.handlers.converter import DjangoConverter
from django_mcp.handlers.exceptions import DjangoExceptions
from django_mcp.handlers.forms import make_django_form
from django_mcp.handlers.languages import ActiveLanguage
from django_mcp.handlers.sealing import SiteSealer
from django_mcp.handlers.states import SiteStates
from django_mcp.handlers.threads import ThreadScope, answer_leasing
from django_mcp.injectables import find_django_provider
from django_mcp.inprocess.methods import InProcess
from django_mcp.known_servers import find_known, known_servers, remember
from django_mcp.middleware import GetReply, load_middleware
from django_mcp.protocol.results import CacheHint
from django_mcp.push.clients import Reaches
from django_mcp.push.notify import Publishes
from django_mcp.push.observer import SignalObserver
from django_mcp.push.process_hub import process_hub
from django_mcp.push.upkeep import look_after
from django_mcp.registry.injection import Provider
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.server.options import OPTIONS, Options
from django_mcp.server.rules import LIST_METHODS
from django_mcp.server.setting import Scope, check_options
from django_mcp.serving import find_serving_app
from django_mcp.sessions.session_stores import KeepsSessions
from django_mcp.signals import tool_called
from django_mcp.tasks.task_stores import KeepsTasks

if TYPE_CHECKING:
    from django.urls import URLPattern

    from django_mcp.auth.authenticator import Authenticator
    from django_mcp.server.services.ports import Observer
    from django_mcp.server.services.services import ServerHub

__all__ = [
    "MCPServer",
    "all_servers",
    "anotify",
    "anotify_prompts_list_changed",
    "anotify_resource_updated",
    "anotify_resources_list_changed",
    "anotify_tools_list_changed",
    "completion",
    "default_server",
    "find_server",
    "notify",
    "notify_prompts_list_changed",
    "notify_resource_updated",
    "notify_resources_list_changed",
    "notify_tools_list_changed",
    "prompt",
    "resource",
    "tool",
]

_OF_GATE = ("public", "authenticators")
"""Keywords for access to a server, which the core's server does not have."""


class MCPServer(InProcess, Publishes, Reaches, KeepsSessions, KeepsTasks):
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

    context_class = Context

    def __init__(self, name: str | None = None, **options: Any) -> None:
        _check(options if name is None else {"name": name, **options})
        # The effective options are created on first use.
        given = {key: value for key, value in options.items() if key not in _OF_GATE}
        super().__init__(name or "", **given)
        self._given_name = name
        self._given = given
        self._given_of_gate = {key: options[key] for key in _OF_GATE if key in options}
        self._hints: dict[str, CacheHint] = dict(options.get("list_cache", {}))
        self._current: Options | None = None
        self._get_reply: GetReply | None = None
        self._gate: Gate | None = None
        self._needs_gate = True
        self._authenticate: Callable[[Exchange], Awaitable[Reply | None]] | None = None
        self.scope = ThreadScope()
        self.access = DjangoAccess(authenticators=self._find_authenticators)
        self.counter = CacheCounter()
        self.exceptions = DjangoExceptions()
        self.sealer = SiteSealer()
        self.states = SiteStates()
        self.language = ActiveLanguage()
        self.converter = DjangoConverter()
        self.make_form = make_django_form
        self.observer: Observer | None = CallRecorder(self)
        self.connection_observer = SignalObserver(self)
        remember(self)

    def __repr__(self) -> str:
        return f"<MCPServer {self._given_name or '(default)'}>"

    def find_observer(self) -> Observer | None:
        """Return the recorder of calls, if they are recorded or a signal has receivers."""
        return self.observer if settings.RECORD_CALLS or tool_called.receivers else None

    @property
    def is_default(self) -> bool:
        """Whether this server is the one that `DJANGO_MCP` describes."""
        return self._given_name is None

    @property
    def public_name(self) -> str:
        """The name for clients and on the command line."""
        return self._given_name or server_settings.name

    @property
    def options(self) -> Options:
        """The current options: those given to the server, else from `DJANGO_MCP`."""
        current = self._current
        if current is None:
            current = self._current = self._read_options()
        return current

    def _read_options(self) -> Options:
        scopes = {Scope.BOTH, Scope.OWN} if self.is_default else {Scope.BOTH}
        found = {
            option: getattr(server_settings, option)
            for option, setting in OPTIONS.items()
            if setting.scope in scopes
        }
        found.update(self._given, name=self.public_name)
        found["list_cache"] = {**_list_hints(settings.LIST_TTL_MS), **self._hints}
        return Options(**found)

    def set_list_cache_hint(self, method: str, hint: CacheHint) -> None:
        """Set how long clients may cache one of the lists, if the revision supports it.

        Raises:
            ValueError: `method` is none of the four list methods or `server/discover`.
        """
        super().set_list_cache_hint(method, hint)
        self._hints[method] = hint

    def answer(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """Return the reply to one POST, or one line, inside of `DJANGO_MCP["MIDDLEWARE"]`."""
        get_reply = self._get_reply
        if get_reply is None:
            get_reply = self._get_reply = load_middleware(settings.MIDDLEWARE, self.load_answer())
            app = find_serving_app()
            if app is not None:
                # With the view alone, this package runs nothing before the first request.
                app.prepare(is_http=exchange.headers is not None)
        return answer_leasing(get_reply, exchange)

    def open_stream(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """See `MCPServer.open_stream` of the core."""
        return answer_leasing(super().open_stream, exchange)

    def end_session(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        """See `MCPServer.end_session` of the core."""
        return answer_leasing(super().end_session, exchange)

    @property
    def gate(self) -> Gate | None:
        """The authentication of requests over HTTP; None: all requests are anonymous.

        Raises:
            ImproperlyConfigured: an authenticator cannot be loaded.
        """
        if self._needs_gate:
            self._set_up_gate()
        return self._gate

    def _find_authenticators(self) -> Sequence[Authenticator]:
        return () if self.gate is None else self.gate.authenticators

    @property
    def authenticate(self) -> Callable[[Exchange], Awaitable[Reply | None]] | None:
        """Authenticates a request before its body is read; None: all requests are anonymous."""
        if self._needs_gate:
            self._set_up_gate()
        return self._authenticate

    @property
    def is_public(self) -> bool:
        """Whether all callers are served alike, so that responses may be shared."""
        gate = self.gate
        return gate is None or gate.is_public

    def _set_up_gate(self) -> None:
        gate = self._gate = self._make_gate()
        self._authenticate = None if gate is None else gate.authenticate
        self._needs_gate = False

    def _make_gate(self) -> Gate | None:
        found: dict[str, Any] = {"public": False, "authenticators": ()}
        if self.is_default:
            found = {option: getattr(settings, option.upper()) for option in _OF_GATE}
        found.update(self._given_of_gate)
        authenticators = load_authenticators(found["authenticators"])
        if found["public"] and not authenticators:
            return None
        return Gate(self, authenticators, is_public=found["public"], remedy=self.how_to_open)

    @property
    def how_to_open(self) -> str:
        """How to configure access to a server without any."""
        if self.is_default:
            return (
                "Set DJANGO_MCP['AUTHENTICATORS'] to say who may call it, or DJANGO_MCP['PUBLIC'] "
                "to True if everybody may."
            )
        return (
            f"Give MCPServer({self._given_name!r}) authenticators=[...] to say who may call it, or "
            "public=True if everybody may."
        )

    def provide_user(self, ctx: Any) -> Any:
        """Return the Django user of a request."""
        return ctx.user

    def injectables(self, annotation: Any) -> Provider | None:
        """Return the provider of a parameter: the context, the HTTP request, the user."""
        return super().injectables(annotation) or find_django_provider(annotation)

    @property
    def urls(self) -> tuple[list[URLPattern], str, str]:
        """The URLs for `path()`, as of an admin site: `mcp` and `mcp/health` below its prefix."""
        app = find_serving_app()
        if app is None:
            raise ImproperlyConfigured("Add 'django_mcp' to INSTALLED_APPS to serve MCP.")
        return app.patterns_of(self), "django_mcp", self._given_name or "django_mcp"

    def forget_settings(self) -> None:
        """Read the settings again on their next use; registrations stay."""
        self._current = None
        self._get_reply = None
        self._needs_gate = True
        self.forget_stores()
        self.forget_task_store()


def _check(options: dict[str, Any]) -> None:
    for option in options:
        setting = SETTINGS.get(option.upper())
        if setting is not None and setting.scope is Scope.SITE:
            raise TypeError(
                f"MCPServer() has no option {option!r}. Set DJANGO_MCP[{option.upper()!r}], which is "
                "for the whole site."
            )
    check_options(options, KEYWORDS)


def _list_hints(ttl_ms: int) -> dict[str, CacheHint]:
    return {method: CacheHint(ttl_ms=ttl_ms) for method in LIST_METHODS} if ttl_ms else {}


def all_servers() -> list[MCPServer]:
    """Return the servers of this process, the default one first, the others by name."""
    found = [each for each in known_servers() if isinstance(each, MCPServer)]
    return sorted(found, key=lambda server: server._given_name or "")


def _forget_settings(*, setting: str, **_kwargs: Any) -> None:
    if setting == "DJANGO_MCP":
        for server in all_servers():
            server.forget_settings()


setting_changed.connect(_forget_settings, dispatch_uid="django_mcp.servers")


def find_server(name: object) -> MCPServer | None:
    """Return the server of a name, the newest if there are several, or None."""
    found = find_known(name)
    return found if isinstance(found, MCPServer) else None


def _receive_changes(hub: ServerHub) -> None:
    # Loads models, which importing a server must not.
    from django_mcp.push import access, keys

    access.join(hub)
    keys.join(hub)


process_hub().on_start.append(_receive_changes)
process_hub().on_tick.append(look_after)

default_server = MCPServer()
"""The server that `include("django_mcp.urls")` serves at `/mcp`."""

tool = default_server.tool
resource = default_server.resource
prompt = default_server.prompt
completion = default_server.completion

notify = default_server.notify
anotify = default_server.anotify
notify_tools_list_changed = default_server.notify_tools_list_changed
anotify_tools_list_changed = default_server.anotify_tools_list_changed
notify_prompts_list_changed = default_server.notify_prompts_list_changed
anotify_prompts_list_changed = default_server.anotify_prompts_list_changed
notify_resources_list_changed = default_server.notify_resources_list_changed
anotify_resources_list_changed = default_server.anotify_resources_list_changed
notify_resource_updated = default_server.notify_resource_updated
anotify_resource_updated = default_server.anotify_resource_updated
