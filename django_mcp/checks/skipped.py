"""System checks of the site's MIDDLEWARE that does not run for calls.

The code of a site's own middleware is read without running it, and tells whether it refuses requests.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterator
from inspect import unwrap
from types import CodeType, FunctionType
from typing import Any

from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Info, Tags
from django.utils.module_loading import import_string

from django_mcp.checks.asgi import skips_middleware
from django_mcp.checks.declared import check
from django_mcp.conf import settings
from django_mcp.endpoints.mounts import find_mounts

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
    try:
        factory = import_string(path)
    except Exception:  # noqa: BLE001 - the module is the site's; who serves it sees its error
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
