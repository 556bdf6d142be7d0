"""The consent page, which shows the client, the redirect, the endpoints and the scopes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.contrib.auth.mixins import AccessMixin
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from oauth2_provider.exceptions import FatalClientError, OAuthToolkitError
from oauth2_provider.http import OAuth2ResponseRedirect
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views import AuthorizationView
from oauthlib.oauth2.rfc6749.errors import (
    AccessDeniedError,
    CustomOAuth2Error,
    InvalidClientIdError,
    InvalidRequestError,
    MismatchingRedirectURIError,
    OAuth2Error,
    UnsupportedCodeChallengeMethodError,
)

from django_mcp.auth.scopes import expand_scopes
from django_mcp.contrib.oauth.approvals import ApprovedResources, are_among, listed_resources
from django_mcp.contrib.oauth.consent_form import ConsentForm, has_valid_seal, make_seal
from django_mcp.contrib.oauth.documents import find_client
from django_mcp.contrib.oauth.metadata import issuer_of
from django_mcp.contrib.oauth.names import describe_client
from django_mcp.contrib.oauth.protected_resources import (
    count_tools_without_scope,
    find_default_resource,
    find_endpoint,
    needs_of,
    takes_tokens_of,
)
from django_mcp.contrib.oauth.public import find_repeated
from django_mcp.contrib.oauth.redirects import is_loopback, is_own_scheme, is_safe_redirect
from django_mcp.contrib.oauth.refusals import (
    BUSY,
    CHANGED,
    FAULTY,
    LATER,
    MAKERS,
    START_AGAIN,
    WRONG_PROMPT,
    DocumentRefused,
    RefusedRequest,
    explain,
    is_nonce_too_long,
)
from django_mcp.contrib.oauth.sign_ins import Step, client_id_of, is_signed_in, report_refused
from django_mcp.pages.policy import protect_public_page
from django_mcp.pages.views import is_switch, switch_account
from django_mcp.registry.rules import read_icons
from django_mcp.servers import default_server

if TYPE_CHECKING:
    from django_mcp.endpoints.well_known import Endpoint

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""A SHA-256 in base64url without padding (RFC 7636 section 4.2)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedScope:
    """A scope on the consent page: its name, its description, and the titles of what needs it."""

    name: str
    description: str
    needed_for: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedEndpoint:
    """An endpoint on the consent page: the title of its server, and its address."""

    title: str
    address: str


class _ConsentRequired(Exception):
    """The consent page must be shown."""


class ConsentView(AuthorizationView):
    """The authorization endpoint (RFC 6749 section 3.1).

    It asks every time about an endpoint, and may not be framed.
    """

    template_name = "django_mcp/oauth/consent.html"
    form_class = ConsentForm

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        # A client could request to skip the page, and so could a program that only claims to be that
        # client: a client without a secret cannot prove its identity (RFC 8252 section 8.6).
        if "approval_prompt" in request.GET:
            query = request.GET.copy()
            query["approval_prompt"] = "force"
            request.GET = query  # type: ignore[assignment]
        if is_switch(request):
            return _protect(switch_account(request))
        registers = oauth2_settings.OIDC_RP_INITIATED_REGISTRATION_ENABLED
        if "create" in _prompts(request) and not registers:
            # The toolkit would answer with JSON.
            _report(request, WRONG_PROMPT)
            return show_refused(request, WRONG_PROMPT, "invalid_request", 400)
        return _protect(super().dispatch(request, *args, **kwargs))

    def handle_no_permission(self) -> HttpResponseBase:
        """Let the person sign in before a document is read, or a stranger's redirect is followed.

        With `prompt=none` of OpenID Connect, the toolkit would do both for anybody.
        """
        client = find_client(self.request.GET.get("client_id", ""))
        response: HttpResponseBase
        if "none" in _prompts(self.request) and (client is None or _is_self_registered(client)):
            response = AccessMixin.handle_no_permission(self)
        else:
            response = super().handle_no_permission()
        return response

    def validate_authorization_request(self, request: HttpRequest) -> tuple[Any, dict[str, Any]]:
        """Reject also repeated parameters, PKCE methods other than S256, and unknown resources."""
        scopes, credentials = super().validate_authorization_request(request)
        error = _find_error(request, credentials, request.GET.getlist("resource"))
        nonce = request.GET.get("nonce", "")
        if find_repeated(request.GET) is not None or is_nonce_too_long(nonce):
            error = InvalidRequestError(state=credentials.get("state"))
        if error is not None:
            raise OAuthToolkitError(error=error, redirect_uri=credentials["redirect_uri"])
        if "resource" not in request.GET:
            resource = _default_resource(request, credentials["request"].client)
            if resource is not None:
                query = request.GET.copy()
                query["resource"] = resource
                request.GET = query  # type: ignore[assignment]
        return scopes, credentials

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the page, or skip it if the toolkit and an administrator allow that."""
        try:
            response: HttpResponse = super().get(request, *args, **kwargs)
        except _ConsentRequired:
            context = self.get_context_data(**self.oauth2_data)
            response = self.render_to_response(context)
        return response

    def create_authorization_response(
        self,
        request: HttpRequest,
        scopes: str,
        credentials: dict[str, Any],
        allow: bool,  # noqa: FBT001  (the toolkit passes it by name)
    ) -> Any:
        """Mark the resources as approved: the user has seen them, or an administrator listed them.

        Raises:
            _ConsentRequired: neither is the case. The client may skip the page, or have an earlier
                consent, but not for this endpoint.
        """
        resources = ApprovedResources(credentials.get("resource", ()))
        if request.method != "POST" and not _may_skip_consent(credentials["client_id"], resources):
            raise _ConsentRequired
        credentials["resource"] = resources
        return super().create_authorization_response(request, scopes, credentials, allow)

    def get_initial(self) -> dict[str, Any]:
        """Sign the request that the page asks about."""
        initial: dict[str, Any] = super().get_initial()
        return {**initial, "seal": make_seal(initial, self.request.user)}

    def error_response(self, error: OAuthToolkitError, application: Any, **kwargs: Any) -> Any:
        """Tell the person, or the client by a redirect that can be trusted, what was wrong.

        A client that registered itself could make this site lead people to any host by a faulty request,
        so there the person decides (RFC 9700 section 4.11.2). Programs on the person's computer, and
        clients that an administrator added, get their answer at once.
        """
        cause = error.oauthlib_error
        if isinstance(cause, AccessDeniedError):
            # The person has seen where this leads.
            return super().error_response(error, application, **kwargs)
        refused = explain(cause, self.request)
        if not isinstance(cause, DocumentRefused):
            _report(self.request, refused)
        if isinstance(error, FatalClientError):
            return show_refused(self.request, refused, cause.error, cause.status_code)
        cause.description = refused.line
        client = application or find_client(client_id_of(self.request) or "")
        answer = super().error_response(error, client, **kwargs)
        if _is_trusted(client, cause.redirect_uri):
            return answer
        place = str(answer["Location"])
        return show_refused(self.request, refused, cause.error, cause.status_code, place)

    def form_valid(self, form: Any) -> HttpResponse:
        """Accept the answer if it is about the request on the page and that is still allowed."""
        given = form.cleaned_data
        application = find_client(given["client_id"])
        if not has_valid_seal(given, self.request.user):
            return self.form_invalid(form)
        if application is None:
            return self._refuse(InvalidClientIdError())
        if not is_safe_redirect(given["redirect_uri"]) or not application.redirect_uri_allowed(
            given["redirect_uri"]
        ):
            return self._refuse(MismatchingRedirectURIError())
        # The default resource was not chosen by the client, so it is not the client's error.
        default = _default_resource(self.request, application)
        named = [part for part in given["resource"].split() if part != default]
        credentials = {name: value for name, value in given.items() if value}
        error = _find_error(self.request, credentials, named)
        if error is not None:
            return self._refuse(error)
        response: HttpResponse = super().form_valid(form)
        return response

    def form_invalid(self, form: Any) -> HttpResponse:
        """Show an error without a redirect, since the request cannot be trusted."""
        refused = RefusedRequest(
            "seal", "The form is not the one of the page.", "Start again.", CHANGED, START_AGAIN
        )
        _report(self.request, refused)
        return show_refused(self.request, refused, "invalid_request", 400)

    def _refuse(self, error: OAuth2Error) -> HttpResponse:
        refused = explain(error, self.request)
        _report(self.request, refused)
        return show_refused(self.request, refused, error.error, 400)

    def redirect(self, redirect_to: str, application: Any) -> OAuth2ResponseRedirect:
        """Redirect the browser back, with the issuer in errors as well (RFC 9207 section 2)."""
        parts = urlsplit(redirect_to)
        given = parse_qsl(parts.query, keep_blank_values=True)
        if any(name == "error" for name, _value in given):
            # Exactly one issuer: a redirect may be registered with a query of its own.
            kept = [(name, value) for name, value in given if name != "iss"]
            query = urlencode([*kept, ("iss", issuer_of(self.request))])
            redirect_to = parts._replace(query=query).geturl()
        return super().redirect(redirect_to, application)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Add the page's variables to those of the toolkit."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        context["account"] = self.request.user.get_username()
        application = context.get("application")
        if application is not None:
            context.update(self._describe(application, context))
        return context

    def _describe(self, application: Any, context: dict[str, Any]) -> dict[str, Any]:
        endpoints = self._find_endpoints(str(context.get("resource") or "").split())
        asked_for = list(dict.fromkeys(endpoints.values()))
        needs = needs_of(asked_for, self.request.user)
        redirect = urlsplit(context["redirect_uri"])
        is_own = is_own_scheme(context["redirect_uri"])
        return {
            **describe_client(application),
            # A program's own scheme comes with it: what follows looks like a host, and is none.
            "redirect_host": f"{redirect.scheme}://{redirect.netloc}"
            if is_own
            else redirect.netloc,
            "stays_here": is_own or is_loopback(redirect.hostname),
            **_describe_site(self.request),
            "tools_without_scope": count_tools_without_scope(asked_for, self.request.user),
            "endpoints": [
                AskedEndpoint(title=str(server.options.title or server.name), address=address)
                for address, (server, _narrowing) in endpoints.items()
            ],
            "asked": [
                AskedScope(
                    name=name, description=str(description), needed_for=_titles_for(name, needs)
                )
                for name, description in zip(
                    context["scopes"], context["scopes_descriptions"], strict=True
                )
            ],
        }

    def _find_endpoints(self, resources: Iterable[str]) -> dict[str, Endpoint]:
        endpoints = {resource: find_endpoint(resource, self.request) for resource in resources}
        return {address: found for address, found in endpoints.items() if found is not None}


def show_refused(
    request: HttpRequest, refused: RefusedRequest, error: str, status: int, place: str = ""
) -> HttpResponse:
    """Return the page of a refused request.

    Args:
        error: the code of RFC 6749.
        place: where the client awaits the answer, if the person may go on there.
    """
    context = {
        "error": error,
        "refused": refused,
        "place": place,
        "host": urlsplit(place).netloc,
    }
    response = render(request, ConsentView.template_name, context, status=status)
    _protect(response)
    return response


def refuse_on_page(request: HttpRequest, error: str, description: str, status: int) -> HttpResponse:
    """Return the page of a request that the view must not get; see `at_public_url`."""
    is_fault = status < 500
    refused = RefusedRequest(
        "request",
        f"{description}.",
        "Send each parameter of RFC 6749 section 4.1.1 once." if is_fault else "Try again.",
        FAULTY if is_fault else BUSY,
        MAKERS if is_fault else LATER,
    )
    _report(request, refused)
    return show_refused(request, refused, error, status)


def _report(request: HttpRequest, refused: RefusedRequest) -> None:
    user = request.user if is_signed_in(request) else None
    report_refused(Step.AUTHORIZATION, request, refused, client_id_of(request), user)


def _protect(response: HttpResponseBase) -> HttpResponseBase:
    response["X-Frame-Options"] = "DENY"
    protect_public_page(response, images=_origins_of_logo())
    response["Referrer-Policy"] = "same-origin"
    response["Cache-Control"] = "no-store"
    return response


def _prompts(request: HttpRequest) -> list[str]:
    return request.GET.get("prompt", "").split()


def _is_self_registered(client: Any) -> bool:
    return client.registration_source in ("dcr", "cimd")


def _is_trusted(client: Any, redirect_uri: str) -> bool:
    """Return whether a person may be led to a redirect without having been asked."""
    if client is None:
        # It was deleted meanwhile, as one that registered itself may be.
        return False
    if not _is_self_registered(client):
        return True
    return is_own_scheme(redirect_uri) or is_loopback(urlsplit(redirect_uri).hostname)


def _origins_of_logo() -> list[str]:
    icons = read_icons(default_server.options.icons)[:1]
    parts = [urlsplit(icon.src) for icon in icons]
    return [f"https://{part.netloc}" for part in parts if part.scheme == "https"]


def _describe_site(request: HttpRequest) -> dict[str, Any]:
    """Return the name and logo of the site: the title and first icon of its default server, or its host."""
    options = default_server.options
    icon = next(iter(read_icons(options.icons)), None)
    return {
        "site_name": str(options.title or urlsplit(issuer_of(request)).netloc),
        "site_logo": "" if icon is None else icon.src,
    }


def _may_skip_consent(client_id: str, resources: list[str]) -> bool:
    if not resources:
        return True
    return are_among(resources, listed_resources(find_client(client_id)))


def _titles_for(scope: str, needs: Mapping[str, list[str]]) -> list[str]:
    """Return the entries that need a scope, or a narrower one it includes."""
    covered = sorted(expand_scopes(frozenset({scope})))
    return list(dict.fromkeys(title for name in covered for title in needs.get(name, ())))


def _default_resource(request: HttpRequest, application: Any) -> str | None:
    """Return the resource of a client that names none; None: its token is for no endpoint.

    Clients that registered themselves are MCP clients; others may be clients of the site's own API.
    """
    return find_default_resource(request) if _is_self_registered(application) else None


def _find_error(
    request: HttpRequest, credentials: Mapping[str, Any], resources: Iterable[str]
) -> OAuth2Error | None:
    state = credentials.get("state")
    if "code_challenge" in credentials and (
        credentials.get("code_challenge_method") != "S256"
        or not _CHALLENGE.fullmatch(credentials["code_challenge"])
    ):
        return UnsupportedCodeChallengeMethodError(state=state)
    issuer = issuer_of(request)
    if not all(takes_tokens_of(issuer, resource, request) for resource in resources):
        return CustomOAuth2Error(error="invalid_target", state=state)
    return None
