"""System checks of a site with OAuth: scopes, URLs, login and addresses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

from django.conf import settings as site_settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004
from django.core.exceptions import ImproperlyConfigured
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, reverse
from oauth2_provider.scopes import get_scopes_backend
from oauth2_provider.settings import oauth2_settings

from django_mcp.auth.addresses import canonical_uri
from django_mcp.auth.scopes import NOT_OF_RESOURCES, named_scopes
from django_mcp.conf import settings
from django_mcp.contrib.oauth.consent import ConsentView
from django_mcp.contrib.oauth.preset import BASE_SCOPE
from django_mcp.contrib.oauth.redirects import is_loopback
from django_mcp.endpoints.mounts import resolve
from django_mcp.registry.problems import find_near
from django_mcp.servers import all_servers

_METADATA = "/.well-known/oauth-authorization-server"
_MIDDLEWARE = (
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
)


def find_scope_problems() -> Iterator[CheckMessage]:
    """O015, O024: scopes that a tool needs and no token can have, or that only its own name describes."""
    try:
        known = {*get_scopes_backend().get_available_scopes()} - NOT_OF_RESOURCES
    except (AttributeError, ImproperlyConfigured) as error:
        yield Error(str(error), hint="Describe at least one scope.", id="django_mcp.O015")
        return
    named = {*named_scopes(all_servers()), *(settings.OAUTH_BASE_SCOPES or ())}
    unknown = named - known - NOT_OF_RESOURCES
    if unknown:
        yield Error(
            f"No token can have the scopes {', '.join(sorted(unknown))}, which tools or "
            "DJANGO_MCP['OAUTH_BASE_SCOPES'] name.",
            hint=f"{_ask(unknown, known)}Describe them in OAUTH2_PROVIDER['SCOPES'].",
            id="django_mcp.O015",
        )
    described = set(oauth2_settings.SCOPES or ()) - NOT_OF_RESOURCES
    unsaid = (named & known) - described
    # A site that describes none shows the names of all.
    if unsaid and described - {BASE_SCOPE}:
        yield Warning(
            f"OAUTH2_PROVIDER['SCOPES'] describes scopes, but not {', '.join(sorted(unsaid))}, which "
            "tools or DJANGO_MCP['OAUTH_BASE_SCOPES'] name.",
            hint=f"{_ask(unsaid, described)}Describe them too, for the consent page.",
            id="django_mcp.O024",
        )
    if not known:
        yield Error(
            "There is no scope, and a client has to ask for one.",
            hint="Describe at least one in OAUTH2_PROVIDER['SCOPES'].",
            id="django_mcp.O015",
        )


def _ask(unknown: Collection[str], known: Collection[str]) -> str:
    """Return the described scopes that unknown ones may be misspelt for, as a sentence; empty without one."""
    near = [
        (scope, next(iter(find_near(scope, known, cutoff=0.8)), None)) for scope in sorted(unknown)
    ]
    meant = [f"{found!r} instead of {scope!r}" for scope, found in near if found is not None]
    return f"Did you mean {', '.join(meant)}? If not: " if meant else ""


def find_url_problems() -> Iterator[CheckMessage]:
    """O016, O017: the metadata is not where clients look, or leads to another consent page."""
    include = 'path("", include("django_mcp.urls"))'
    try:
        url = reverse("oauth2_provider:oauth-server-metadata")
        consent = reverse("oauth2_provider:authorize")
    except NoReverseMatch:
        url = consent = ""
    if consent and _is_of_toolkit(consent):
        yield Error(
            f"{consent} is a consent page of django-oauth-toolkit: its URLs are included as well.",
            hint=f"Take include('oauth2_provider.urls') out: {include} has what clients need. "
            "DJANGO_MCP['OAUTH_PREFIX'] keeps the old addresses.",
            id="django_mcp.O017",
        )
    elif url != _at_root(_METADATA):
        yield Error(
            f"The authorization server's metadata is not at {_METADATA}, the one place where "
            "clients look.",
            hint=f"Write {include} into the root URLconf, below no prefix.",
            id="django_mcp.O016",
        )


def _at_root(path: str) -> str:
    forced = site_settings.FORCE_SCRIPT_NAME or ""
    return forced.rstrip("/") + path


def _is_of_toolkit(path: str) -> bool:
    """Return whether django-oauth-toolkit's own view answers a path. W020 reports other views."""
    forced = (site_settings.FORCE_SCRIPT_NAME or "").rstrip("/")
    match = resolve(path.removeprefix(forced))
    if match is None:
        return False
    # Decorators copy it; a view whose `dispatch` is decorated would be unwrapped to that.
    view_class: type = getattr(match.func, "view_class", object)
    is_ours = issubclass(view_class, ConsentView)
    return not is_ours and view_class.__module__.startswith("oauth2_provider.")


def find_login_problems() -> Iterator[CheckMessage]:
    """O018, O019: nobody can sign in at the consent page, or others can answer it."""
    missing = [path for path in _MIDDLEWARE if path not in site_settings.MIDDLEWARE]
    if missing:
        yield Error(
            f"The consent page needs {', '.join(missing)}: without it nobody is signed in, or pages "
            "of strangers can press its button.",
            hint="Add it to MIDDLEWARE.",
            id="django_mcp.O018",
        )
    try:
        where = urlsplit(resolve_url(site_settings.LOGIN_URL))
        leads_nowhere = not where.netloc and resolve(where.path) is None
    except NoReverseMatch:
        leads_nowhere = True
    if leads_nowhere:
        yield Error(
            f"LOGIN_URL ({site_settings.LOGIN_URL}) leads nowhere, so nobody can sign in to allow a "
            "client anything.",
            hint="Mount django.contrib.auth.views.LoginView there, or set LOGIN_URL to your own page.",
            id="django_mcp.O019",
        )


def find_address_problems() -> Iterator[CheckMessage]:
    """O020, O021: clients would not take the URLs that are given out, or others could choose them."""
    public, issuer = settings.PUBLIC_URL, oauth2_settings.OIDC_ISS_ENDPOINT
    for url in filter(None, (public, issuer)):
        parts = urlsplit(url)
        if parts.scheme != "https" and not is_loopback(parts.hostname):
            yield Error(
                f"{url} is not https, and clients take no metadata and no token over less.",
                hint="Serve the site over TLS and set DJANGO_MCP['PUBLIC_URL'] to its https address.",
                id="django_mcp.O020",
            )
    if (
        public
        and issuer
        and not f"{canonical_uri(issuer)}/".startswith(f"{canonical_uri(public)}/")
    ):
        yield Error(
            f"OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT'] ({issuer}) is not at DJANGO_MCP['PUBLIC_URL'] "
            f"({public}): clients look for the issuer's metadata at its own address.",
            hint="Leave OIDC_ISS_ENDPOINT out.",
            id="django_mcp.O020",
        )
    wild = [host for host in site_settings.ALLOWED_HOSTS if host.startswith(("*", "."))]
    if wild and public is None and not site_settings.DEBUG:
        yield Warning(
            f"ALLOWED_HOSTS has {', '.join(wild)}, so any caller chooses the host in the URLs of the "
            "metadata.",
            hint="Set DJANGO_MCP['PUBLIC_URL'], or list the hosts of this site.",
            id="django_mcp.O021",
        )
