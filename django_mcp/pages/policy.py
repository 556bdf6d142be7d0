"""The Content-Security-Policy of the package's pages, on sites that have none.

Middleware that sets a policy does not change a response that has one. So the package's policy is added
as the headers are sent, when it is known whether the site has set its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.response import HttpResponseBase, ResponseHeaders
from django.template import TemplateDoesNotExist
from django.template.loader import get_template

HEADER = "Content-Security-Policy"

UNFRAMED = "frame-ancestors 'none'"

_ANY_THEME = "object-src 'none'; base-uri 'none'; frame-ancestors 'self'"
"""For an admin with a theme or changes by the site, whose scripts and styles may be anywhere."""


class _Headers(ResponseHeaders):
    """Headers of a response that are sent with a policy of the package, which middleware does not see.

    Attributes:
        policy: sent if the site has set none.
        always: the part of it that browsers have to enforce besides a policy of the site.
    """

    policy = always = ""

    def items(self) -> Any:
        theirs = self.get(HEADER)
        policies = (self.policy,) if theirs is None else (theirs, self.always)
        others = {name: value for name, value in super().items() if name.lower() != HEADER.lower()}
        return {**others, HEADER: ", ".join(filter(None, policies))}.items()


def set_policy(response: HttpResponseBase, policy: str, always: str = "") -> None:
    """Send a policy with a response, unless it has one or the site sets one. The first one that is set counts.

    The directives in `always` are sent besides the site's policy: browsers enforce both.
    """
    if not isinstance(response.headers, _Headers):
        response.headers = headers = _Headers(response.headers)
        headers.policy, headers.always = policy, always


def protect_public_page(response: HttpResponseBase, images: Iterable[str] = ()) -> None:
    """Set a policy on one of the package's pages outside of the admin, which is never framed.

    It allows scripts and styles in files of the site, and nothing from other origins but the images
    named. It does not restrict form targets: the consent page's form leads to the client.

    Args:
        images: origins such as `https://cdn.example.com`.
    """
    set_policy(response, f"{own_policy(images)}; base-uri 'none'; {UNFRAMED}", always=UNFRAMED)


def protect_admin_page(view: Callable[..., Any]) -> Callable[..., Any]:
    """Return a view of the admin whose responses have a policy."""

    @wraps(view)
    def answer(*args: Any, **kwargs: Any) -> Any:
        response = view(*args, **kwargs)
        set_policy(response, admin_policy())
        return response

    return answer


def admin_policy(frames: str = "") -> str:
    """Return the policy of a page of the admin.

    Args:
        frames: the sources of frames that it shows, such as `'self'`; empty: it shows none.
    """
    framed = f"; frame-src {frames}" if frames else ""
    if not _is_plain_admin():
        # Also with a theme: a page in a frame could leave for another origin, which then passed for it.
        return f"{_ANY_THEME}{framed}"
    return f"{own_policy()}{framed}; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"


def own_policy(images: Iterable[str] = ()) -> str:
    """Return the directives that allow files of the site, and images of the origins named."""
    static = urlsplit(settings.STATIC_URL or "")
    own = f"'self' {static.scheme or 'https'}://{static.netloc}" if static.netloc else "'self'"
    image_sources = " ".join([own, "data:", *images])
    return (
        f"default-src 'none'; script-src {own}; style-src {own}; img-src {image_sources}; "
        f"font-src {own}; connect-src {own}"
    )


def _is_plain_admin() -> bool:
    """Return whether the admin is Django's own, without changes."""
    import django.contrib.admin

    own = Path(django.contrib.admin.__file__).parent
    try:
        templates: list[Any] = [
            get_template(f"admin/{name}.html") for name in ("base", "base_site")
        ]
    except TemplateDoesNotExist:
        return False
    origins = [template.origin for template in templates]
    return all(origin is not None and Path(origin.name).is_relative_to(own) for origin in origins)
