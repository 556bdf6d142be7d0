"""What is known of the site's ASGI application: whether `django_mcp_application` is around it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from django.conf import settings as site_settings
from django.utils.module_loading import import_string

from django_mcp.endpoints.mounts import is_wrapped


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

    Its module is imported only if its text does not call the wrapper.
    """
    try:
        spec = find_spec(path.rpartition(".")[0])
        if spec is None or spec.origin is None:
            return None
        if "django_mcp_application(" in Path(spec.origin).read_text(encoding="utf-8"):
            return True
        import_string(path)
    except Exception:  # noqa: BLE001 - the module is the site's; who serves it sees its error
        return None
    return is_wrapped.is_set()
