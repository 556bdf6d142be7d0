"""Servers of a Django site: the core's server, with Django and the settings of `DJANGO_MCP`.

Importing this module loads no models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import override

from django_mcp.conf import KEYWORDS, SETTINGS, read_on_import, server_settings, settings
from django_mcp.context import find_django_provider
from django_mcp.execution.threads import run_in_pool
from django_mcp.execution.values import DJANGO_CONVERTER
from django_mcp.extension_packages import load_parts
from django_mcp.inprocess.methods import InProcess
from django_mcp.known_servers import is_site_loaded, known_servers, remember
from django_mcp.process import reset_on
from django_mcp.protocol.results import CacheHint
from django_mcp.push.clients import SiteClientMethods
from django_mcp.push.process_hub import process_hub
from django_mcp.push.upkeep import check_all
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.options import ToolOptions
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.registry import Registry
from django_mcp.registry.rules import shown
from django_mcp.registry.signatures import Provider
from django_mcp.server.clients import SessionHandle, StreamHandle
from django_mcp.server.delivery.notify import announce
from django_mcp.server.extension_loading import check_names, load_extensions
from django_mcp.server.options import OPTIONS, Options
from django_mcp.server.server import BaseServer
from django_mcp.server.setting import LIST_METHODS, Scope, check_options
from django_mcp.server.streams.stream import Change
from django_mcp.site_engine import AUTHENTICATION_KEYWORDS, AuthenticationSettings, SiteEngine
from django_mcp.site_ports import site_ports

if TYPE_CHECKING:
    from django.urls import URLPattern


class MCPServer(BaseServer, InProcess, SiteClientMethods):
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
        super().__init__(Registry(), DJANGO_CONVERTER)
        self.given_name = name
        self._given_access = {
            key: options.pop(key) for key in AUTHENTICATION_KEYWORDS if key in options
        }
        self._given = options
        # Not one of those that are called again when URLs change, which would end the engine of any server.
        self._unfinished.append(self._register_parts)
        remember(self)

    @property
    def is_default(self) -> bool:
        """Whether this server is the one that `DJANGO_MCP` describes."""
        return self.given_name is None

    if TYPE_CHECKING:
        # Only its type is another one: each request reads it, so it must not be wrapped.
        @property
        def engine(self) -> SiteEngine: ...

    def _make_options(self) -> Options:
        """Return the options that were given to the server, and the others from `DJANGO_MCP`."""
        scopes = {Scope.BOTH, Scope.OWN} if self.is_default else {Scope.BOTH}
        options = {
            option: getattr(server_settings, option)
            for option, setting in OPTIONS.items()
            if setting.scope in scopes
        }
        options.update(self._given, name=self.given_name or server_settings.name)
        ttl_ms = settings.LIST_TTL_MS
        options["list_cache"] = (
            dict.fromkeys(LIST_METHODS, CacheHint(ttl_ms=ttl_ms)) if ttl_ms else {}
        )
        return Options(**options)

    def register_tool(
        self, handler: Callable[..., Any], **options: Unpack[ToolOptions]
    ) -> ToolEntry:
        """Register a function as a tool, and return its entry; see `ToolOptions`."""
        parts = load_parts("site.tool_registration")
        for part in parts:
            handler = part.prepare(self, handler, options)
        entry = super().register_tool(handler, **options)
        try:
            for part in parts:
                part.register_companion(self, entry)
        except BaseException:
            self._registry.remove("tools", entry.name)
            raise
        return entry

    def remove_tool(self, name: str) -> bool:
        """Remove a tool, with what was registered for it, and return whether there was one."""
        for part in load_parts("site.tool_registration"):
            part.remove_companion(self, name)
        return super().remove_tool(name)

    def _own_extensions(self) -> Iterable[Any]:
        if "extensions" in self._given or not self.is_default:
            extensions: Iterable[Any] = self._given.get("extensions", ())
            return extensions
        # By itself, since entries are registered whatever is wrong in other settings.
        own: Iterable[Any] = read_on_import("EXTENSIONS")
        return own

    def _add_entries(self) -> None:
        with _errors_of_extensions(self):
            super()._add_entries()

    def _register_parts(self) -> None:
        """Register what extensions find on the site."""
        with _errors_of_extensions(self):
            for part in load_parts("site.registration"):
                part.register(self)

    def forget_settings(self) -> None:
        """See `BaseServer.forget_settings`. What extensions find may be elsewhere now."""
        super().forget_settings()
        with self._lock:
            if self._register_parts not in self._unfinished:
                self._unfinished.append(self._register_parts)

    def _finish(self) -> None:
        if is_site_loaded():
            super()._finish()

    def _finish_in_thread(self) -> None:
        # Importing a server must not load it.
        from django_mcp.execution.db_connections import run_with_connections

        # The thread ends, and its connections with it.
        run_with_connections(super()._finish_in_thread)

    def _call_unfinished(self) -> None:
        # What is registered is the same in all processes, whatever the language of the first client.
        with override(django_settings.LANGUAGE_CODE):
            super()._call_unfinished()

    def _make_engine(self) -> SiteEngine:
        registry, options = self.registry, self.options
        authentication = AuthenticationSettings(self.given_name, self._given_access)
        ports = site_ports(self, authentication)
        with _errors_of_extensions(self):
            extensions = [part.on_site(ports.clock) for part in load_parts("site.extension")]
            extensions += [extension() for extension in load_extensions(self._own_extensions())]
            check_names(extensions)
            made = SiteEngine(
                ports, registry, options, extensions, authentication, settings.MIDDLEWARE
            )
            # Asks the extensions, so that a fault of theirs ends here.
            _ = made.derived
        return made

    def __repr__(self) -> str:
        return f"<MCPServer {self.given_name or '(default)'}>"

    def _publish(self, change: Change, using: str | None = None) -> int | None:
        """Publish a change here and in every other process; after the commit, if there is one.

        Inside of a transaction it returns None; a rollback discards the change.
        """
        # Loads `django.db`, which importing a server must not.
        from django.db import transaction

        if transaction.get_connection(using).in_atomic_block:
            transaction.on_commit(
                partial(announce, self.engine.hub, change), using=using, robust=True
            )
            return None
        return announce(self.engine.hub, change)

    async def _find_elsewhere(self) -> list[tuple[StreamHandle, SessionHandle | None]]:
        if settings.SESSION_STORE != "model":
            return []
        # Loads `django.db`, which importing a server must not.
        from django_mcp.push.stream_rows import read_streams

        return await run_in_pool(lambda: read_streams(self.name))

    async def _is_subscribed_elsewhere(self, uri: str) -> bool:
        if settings.SESSION_STORE == "memory":
            return False
        from django_mcp.push.stream_rows import is_any_listening
        from django_mcp.sessions.site.rows import is_any_subscribed

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
        return patterns, "django_mcp", self.given_name or "django_mcp"


@contextmanager
def _errors_of_extensions(server: MCPServer) -> Iterator[None]:
    try:
        yield
    except ImproperlyConfigured:
        raise
    except Exception as error:
        raise ImproperlyConfigured(
            f"{server!r} cannot use its extensions: {str(error) or repr(error)}"
        ) from error


def all_servers() -> list[MCPServer]:
    """Return the servers of this process, the default one first, the others by name."""
    servers = cast("list[MCPServer]", known_servers())
    return sorted(servers, key=lambda server: server.given_name or "")


def _forget_settings() -> None:
    for server in all_servers():
        server.forget_settings()


def _forget_site() -> None:
    for server in all_servers():
        if isinstance(server, MCPServer):  # and no core without the site's tools, as in tests
            server._finish_again()


reset_on(_forget_settings, settings=("DJANGO_MCP", "DEBUG"))
reset_on(_forget_site, settings=("ROOT_URLCONF", "DATABASE_ROUTERS"))


process_hub().on_tick.append(check_all)

default_server = MCPServer()
"""The server that `include("django_mcp.urls")` serves at `/mcp`."""


def choose_server(server: MCPServer | None) -> MCPServer:
    """Return the server that an option `server=` gives, by default the default server.

    Raises:
        RegistrationError: it is no server, such as the name of one.
    """
    if server is None:
        return default_server
    if isinstance(server, MCPServer):
        return server
    raise RegistrationError(
        f"server= takes the MCPServer object, not {shown(server)}. Import it from the module that "
        "makes it, as in: from shop.servers import staff_server."
    )


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
