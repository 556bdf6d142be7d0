"""System checks of middleware: Django's list of which not all runs for calls, and the list of `DJANGO_MCP`.

The code of a site's own middleware is read without running it, and tells whether it refuses requests.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType
from typing import Any

from asgiref.local import Local
from django.conf import global_settings
from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags
from django.utils import timezone, translation
from django.utils.functional import Promise
from django.utils.module_loading import import_string

from django_mcp.checks.asgi import skips_middleware
from django_mcp.checks.declared import check, list_some
from django_mcp.checks.owners import find_user_model
from django_mcp.checks.site import check_middleware
from django_mcp.conf import settings
from django_mcp.endpoints.mounts import find_mounts
from django_mcp.middleware import CallMiddleware, LocaleMiddleware
from django_mcp.registry.problems import innermost
from django_mcp.servers import MCPServer, all_servers

_REFUSALS = frozenset(
    ["HttpResponseForbidden", "PermissionDenied", "SuspiciousOperation", "redirect_to_login"]
)
_ANSWERS = frozenset(
    [
        "HttpResponse",
        "HttpResponseRedirect",
        "JsonResponse",
        "TemplateResponse",
        "redirect",
        "render",
    ]
)
_STATUSES = frozenset([401, 403, 429, 451, 503])
_OF_ADDRESS = frozenset(["REMOTE_ADDR", "HTTP_X_FORWARDED_FOR", "X-Forwarded-For"])
_NAMED_SO = re.compile(
    r"allow_?list|allowed_?ip|white_?list|black_?list|block_?list|block_?ip|deny_?list|firewall|forbid"
    r"|ip_?(access|allow|block|check|deny|filter|guard|only|restrict)|lock_?down|maintenance_?mode|restrict",
    re.IGNORECASE,
)


@check(Tags.security, id="django_mcp.W034")
def check_skipped_rules() -> Iterator[CheckMessage]:
    """W034: middleware of the site that refuses requests does not run for calls."""
    paths = [path for path in _find_skipped() if _refuses(path)]
    if paths and find_mounts():
        subject, does = ("These entries", "do") if len(paths) > 1 else ("This entry", "does")
        yield checks.Warning(
            f"{subject} of MIDDLEWARE can refuse requests, and {does} not run for MCP calls: {', '.join(paths)}.",
            hint="Write the rule for DJANGO_MCP['MIDDLEWARE'] as a subclass of "
            "django_mcp.middleware.AccessMiddleware, or have Django serve the endpoint: take "
            "django_mcp_application out of the ASGI application. Silence this if MCP calls need no such rule.",
        )


@check(id="django_mcp.W054")
def check_kept_values() -> Iterator[CheckMessage]:
    """W054: middleware that keeps something of each request for other code, such as its user, keeps nothing of calls."""
    paths = [path for path in _find_of_site() if _keeps(path)]
    if paths and find_mounts():
        subject = "These entries" if len(paths) > 1 else "This entry"
        if skips_middleware():
            why = "and MCP calls pass by"
        else:
            why = "and for MCP calls before it is known who calls, and not in the thread of the handler"
        yield checks.Warning(
            f"{subject} of MIDDLEWARE may keep something of each request for other code, such as its user or time zone, {why}: "
            f"{', '.join(paths)}.",
            hint="Keep it from a function of DJANGO_MCP['MIDDLEWARE'], in a ContextVar: exchange.caller.principal.user "
            "is the user. Silence this if no MCP call runs code that reads it, such as receivers of signals.",
        )


@check(deploy=True, id="django_mcp.I001")
def check_skipped_middleware() -> Iterator[CheckMessage]:
    """I001: the site's middleware does not run for the consumer."""
    # W034 and W054 report the others.
    skipped = [path for path in _find_skipped() if not _refuses(path) and not _keeps(path)]
    if skipped:
        yield Info(
            "Where django_mcp_application serves the MCP endpoint, this MIDDLEWARE of the site "
            f"does not run: {', '.join(skipped)}.",
            hint="What MCP calls need of it, such as a tenant, belongs in DJANGO_MCP['MIDDLEWARE']. "
            "Silence this if they need none of it.",
        )


@check(id="django_mcp.E020")
def check_middleware_of_calls() -> Iterator[CheckMessage]:
    """E020: middleware of calls is in Django's `MIDDLEWARE`, so that every page of the site fails."""
    for path in site_settings.MIDDLEWARE:
        factory = _load(path)
        if isinstance(factory, type) and issubclass(factory, CallMiddleware):
            name = factory.__name__
            own = "django.middleware.locale.LocaleMiddleware"
            instead = f" Django's own is {own}." if name == "LocaleMiddleware" else ""
            yield Error(
                f"MIDDLEWARE has {path}, which takes exchanges of MCP and no requests: every page of the site fails.",
                hint=f"Move it to DJANGO_MCP['MIDDLEWARE'].{instead}",
            )


@check(id="django_mcp.W046")
def check_languages() -> Iterator[CheckMessage]:
    """W046: `DJANGO_MCP["MIDDLEWARE"]` has left out what activates the language of a client."""
    paths = settings.MIDDLEWARE
    if not site_settings.USE_I18N or any(map(_chooses_language, paths)):
        return
    codes = [code for code, _ in site_settings.LANGUAGES]
    is_chosen = codes != [code for code, _ in global_settings.LANGUAGES]
    is_translated = len(codes) > 1 and (is_chosen or bool(site_settings.LOCALE_PATHS))
    # E003 reports middleware that cannot run.
    if not is_translated or check_middleware() or not any(map(_has_texts, all_servers())):
        return
    # Django's own runs where its view serves the endpoint.
    if not skips_middleware() and any(map(_chooses_language, site_settings.MIDDLEWARE)):
        return
    yield checks.Warning(
        "DJANGO_MCP['MIDDLEWARE'] has no LocaleMiddleware, so that every client gets the texts of calls in "
        f"{site_settings.LANGUAGE_CODE!r}, though the site has {len(site_settings.LANGUAGES)} languages.",
        hint="The list replaces the default: add 'django_mcp.middleware.LocaleMiddleware' to it. Silence this if all "
        "calls are meant to have one language.",
    )


@check(id="django_mcp.I018")
def check_time_zones() -> Iterator[CheckMessage]:
    """I018: users have a time zone, which nothing activates for calls that take a date and time."""
    users = find_user_model()
    fields = () if users is None else users._meta.concrete_fields
    zone = next((each for each in fields if _ZONE.fullmatch(each.name)), None)
    if zone is None or not site_settings.USE_TZ or check_middleware():
        return
    own = [path for path in settings.MIDDLEWARE if not path.startswith("django_mcp.")]
    tools = [
        tool.name
        for server in all_servers()
        for tool in server.registry.tools.values()
        if "date-time" in str(tool.input_schema)
    ]
    if tools and not any(map(_keeps, own)):
        yield Info(
            f"Users have a time zone ({zone}), and nothing activates it for MCP calls: {list_some(tools)} "
            f"{'read' if len(tools) > 1 else 'reads'} times without an offset in {site_settings.TIME_ZONE}.",
            hint="Activate it in a function of DJANGO_MCP['MIDDLEWARE']. Silence this if all times are those of the site.",
        )


_ZONE = re.compile(r"(user_?)?(time_?zone|tz)(_?(id|name))?", re.IGNORECASE)


_LANGUAGE = re.compile(r"locale|language|i18n|translat", re.IGNORECASE)


def _chooses_language(path: str) -> bool:
    """Return whether a middleware activates a language, by its name or by what its code names."""
    factory = _load(path)
    if factory is None or _LANGUAGE.search(path):
        return True
    if isinstance(factory, type) and issubclass(factory, LocaleMiddleware):
        return True
    read = _Code()
    for each in factory.__mro__ if isinstance(factory, type) else (factory,):
        for value in vars(each).values() if isinstance(each, type) else (each,):
            read.add(getattr(value, "__func__", value))
    return any(_LANGUAGE.search(name) or name == "activate" for name in read.names)


def _has_texts(server: MCPServer) -> bool:
    """Return whether a server has texts that depend on the language."""
    return any(
        isinstance(entry.title, Promise)
        or isinstance(entry.description, Promise)
        or _translates(entry.handler.origin)
        for entry in server.registry.entries()
    )


def _translates(function: Any) -> bool:
    read = unwrap(innermost(function)) if callable(function) else function
    names = getattr(getattr(read, "__func__", read), "__globals__", {})
    return any(
        getattr(value, "__module__", None) == "django.utils.translation"
        or getattr(value, "__name__", None) == "django.utils.translation"
        for value in list(names.values())
        if isinstance(value, FunctionType | ModuleType)
    )


def _load(path: str) -> Any:
    try:
        return import_string(path)
    except Exception:  # noqa: BLE001 - the module is the site's; who serves it sees its error
        return None


def _find_of_site() -> list[str]:
    # What Django's own does is done by the endpoint, or means nothing there.
    return [
        path
        for path in site_settings.MIDDLEWARE
        if path not in settings.MIDDLEWARE and not path.startswith("django.")
    ]


def _find_skipped() -> list[str]:
    skipped = _find_of_site()
    return skipped if skipped and skips_middleware() else []


def _refuses(path: str) -> bool:
    """Return whether a middleware refuses requests, by its name or, if it is of the project, by its code."""
    factory = _load(path)
    if factory is None:
        return False
    classes = factory.__mro__ if isinstance(factory, type) else (factory,)
    own = [each for each in classes if not _is_of_framework(each)]
    if any(_NAMED_SO.search(getattr(each, "__name__", "")) for each in own):
        return True
    read = _Code()
    for each in filter(_is_of_project, own):
        for value in vars(each).values() if isinstance(each, type) else (each,):
            read.add(getattr(value, "__func__", value))
    return read.refuses


def _keeps(path: str) -> bool:
    """Return whether the code of a middleware names what keeps values of a thread or of a context.

    `activate()` of Django's time zones and languages is such a name.
    """
    factory = _load(path)
    classes = factory.__mro__ if isinstance(factory, type) else (factory,)
    seen: set[Any] = set()
    return any(
        _names_storage(getattr(value, "__func__", value), path.partition(".")[0], seen)
        for each in classes
        if each is not None and not _is_of_framework(each)
        for value in (list(vars(each).values()) if isinstance(each, type) else [each])
    )


_STORAGES = (threading.local, Local, ContextVar)
_MODULES = (timezone, translation)
_ACTIVATE = frozenset(("activate", "override"))
_ACTIVATING = tuple(getattr(module, name) for module in _MODULES for name in sorted(_ACTIVATE))


def _names_storage(function: Any, package: str, seen: set[Any]) -> bool:
    """Return whether a function, or one of the same package that it calls, names a storage."""
    function = unwrap(function) if callable(function) else function
    if not isinstance(function, FunctionType) or function in seen:
        return False
    seen.add(function)
    if function.__module__.partition(".")[0] != package:
        return False
    names = _Code()
    names.read(function.__code__)
    for name in names.names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == package:
            held: list[Any] = [vars(value).get(each) for each in names.names]
        else:
            held = [value, *(vars(value).values() if isinstance(value, type) else ())]
        if any(isinstance(each, _STORAGES) or _names_storage(each, package, seen) for each in held):
            return True
        is_named = any(value is each for each in _MODULES) and not _ACTIVATE.isdisjoint(names.names)
        # Not by `in`, which would compare with what the site wrote.
        if is_named or any(value is each for each in _ACTIVATING):
            return True
    return False


def _is_of_framework(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith(("builtins", "django."))


def _is_of_project(value: Any) -> bool:
    """Return whether the module of a class or a function is no installed package."""
    module = sys.modules.get(str(getattr(value, "__module__", "")))
    path = str(getattr(module, "__file__", None) or "site-packages")
    return not re.search(r"[/\\](site|dist)-packages[/\\]|^site-packages$", path) and not (
        path.startswith(sysconfig.get_path("stdlib")) or _is_of_framework(value)
    )


class _Code:
    """What functions name, with those inside of them and those of the project that they call."""

    def __init__(self) -> None:
        self._seen: set[Any] = set()
        self._names: set[str] = set()
        self._constants: set[Any] = set()

    @property
    def names(self) -> frozenset[str]:
        """What the functions name."""
        return frozenset(self._names)

    @property
    def refuses(self) -> bool:
        answers = not _ANSWERS.isdisjoint(self._names)
        says_status = "status" in self._constants or "status_code" in self._names
        return (
            not _REFUSALS.isdisjoint(self._names)
            or (answers and says_status and not _STATUSES.isdisjoint(self._constants))
            or (answers and not _OF_ADDRESS.isdisjoint(self._constants))
            or ("redirect" in self._names and "user" in self._names)
        )

    def add(self, function: Any) -> None:
        """Read a function, unless it was read before, or is none."""
        function = unwrap(function) if callable(function) else function
        if isinstance(function, FunctionType) and function not in self._seen:
            self._seen.add(function)
            for name in self.read(function.__code__):
                value = function.__globals__.get(name)
                if isinstance(value, FunctionType) and _is_of_project(value):
                    self.add(value)

    def read(self, code: CodeType) -> set[str]:
        """Read what a code object names, with those inside of it, and return it."""
        names = set(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                names |= self.read(constant)
            else:
                # The names of arguments are in a tuple.
                self._constants.update(constant if isinstance(constant, tuple) else [constant])
        self._names |= names
        return names
