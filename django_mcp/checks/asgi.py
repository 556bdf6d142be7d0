"""What is known of the site's ASGI application: whether `django_mcp_application` is around it."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings as site_settings
from django.utils.module_loading import import_string

from django_mcp.endpoints.mounts import wrapped


def find_unwrapped() -> str | None:
    """Return the path of the site's ASGI application if it does not use the wrapper; None: it does, or is unknown."""
    return next((path for path in _paths() if _uses_wrapper(path) is False), None)


def is_left_to_django() -> bool:
    """Return whether Django's request handling, with the site's MIDDLEWARE, may serve the endpoints."""
    path = getattr(site_settings, "ASGI_APPLICATION", None)
    return not isinstance(path, str) or _uses_wrapper(path) is False


def skips_middleware() -> bool:
    """Return whether the site has an ASGI application that serves the endpoints without its MIDDLEWARE."""
    return any(map(_uses_wrapper, _paths()))


def _paths() -> list[str]:
    """Return the path of the site's ASGI application; those where it may be if no setting says so."""
    path = getattr(site_settings, "ASGI_APPLICATION", None)
    modules = (getattr(site_settings, name, None) for name in ("ROOT_URLCONF", "SETTINGS_MODULE"))
    packages = (str(module).rpartition(".")[0] for module in modules)
    return [str(path)] if path else [f"{package}.asgi.application" for package in packages]


def _uses_wrapper(path: str) -> bool | None:
    """Return whether an ASGI application was made with the wrapper; None: it cannot be told.

    Its module is imported only if its text does not show that it keeps what the wrapper returns.
    """
    try:
        spec = find_spec(path.rpartition(".")[0])
        if spec is None or spec.origin is None:
            return None
        if _keeps_wrapped(Path(spec.origin).read_text(encoding="utf-8")):
            return True
        import_string(path)
    except Exception:  # noqa: BLE001 - the module is the site's; who serves it sees its error
        return None
    return bool(wrapped)


def _keeps_wrapped(text: str) -> bool:
    """Return whether a module calls the wrapper, and neither drops nor overwrites what it returns."""
    is_kept = False
    names: set[str] = set()
    for statement in ast.parse(text).body:
        nodes = list(ast.walk(statement))
        used = [each for each in nodes if isinstance(each, ast.Name)]
        stored = {each.id for each in used if isinstance(each.ctx, ast.Store)}
        loaded = {each.id for each in used if isinstance(each.ctx, ast.Load)}
        if any(isinstance(each, ast.Call) and _is_wrapper(each.func) for each in nodes):
            is_kept = not isinstance(statement, ast.Expr)
            names = stored
        elif isinstance(statement, ast.Assign) and names & stored and not names & loaded:
            is_kept = False
    return is_kept


def _is_wrapper(function: ast.expr) -> bool:
    return ast.unparse(function).rpartition(".")[2] == "django_mcp_application"
