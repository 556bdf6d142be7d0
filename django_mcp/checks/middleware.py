"""System checks of middleware: Django's list of which not all runs for calls, and the list of `DJANGO_MCP`.

The code of a site's own middleware is read without running it, and tells whether it refuses requests.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterator
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType
from typing import Any

from django.conf import global_settings
from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags
from django.utils.functional import Promise
from django.utils.module_loading import import_string

from django_mcp.checks.asgi import skips_middleware
from django_mcp.checks.declared import check
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


@check(deploy=True, id="django_mcp.I001")
def check_skipped_middleware() -> Iterator[CheckMessage]:
    """I001: the site's middleware does not run for the consumer."""
    # W034 reports the others.
    skipped = [path for path in _find_skipped() if not _refuses(path)]
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


def _find_skipped() -> list[str]:
    # What Django's own does is done by the endpoint, or means nothing there.
    skipped = [
        path
        for path in site_settings.MIDDLEWARE
        if path not in settings.MIDDLEWARE and not path.startswith("django.")
    ]
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
            for name in self._read(function.__code__):
                value = function.__globals__.get(name)
                if isinstance(value, FunctionType) and _is_of_project(value):
                    self.add(value)

    def _read(self, code: CodeType) -> set[str]:
        names = set(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                names |= self._read(constant)
            else:
                # The names of arguments are in a tuple.
                self._constants.update(constant if isinstance(constant, tuple) else [constant])
        self._names |= names
        return names
