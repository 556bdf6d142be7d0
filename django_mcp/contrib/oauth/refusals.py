"""What is said of a refused authorization request: to the person on a page, and to the client's makers in the log."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from oauth2_provider.models import get_grant_model
from oauth2_provider.scopes import get_scopes_backend
from oauthlib.oauth2.rfc6749 import errors

from django_mcp.contrib.oauth.public import find_repeated
from django_mcp.contrib.oauth.redirects import WANTED
from django_mcp.contrib.oauth.scopes import find_requested
from django_mcp.contrib.oauth.sign_ins import SignInRefused
from django_mcp.protocol.sanitize import clean

LATER = _("Try again later.")
MAKERS = _("Update the application. If that does not help, send its makers the line below.")
RECONNECT = _("Remove the connection in the application, and connect again.")
CHECK_ADDRESS = _("Check the address of the endpoint in the application.")
START_AGAIN = _("Go back to the application, and start again.")

UNKNOWN = _("This site does not know the application, or does not know it any more.")
WRONG_PLACE = _("The application wants the answer at an address that is not allowed for it.")
FAULTY = _("The request of the application is faulty.")
UNPROTECTED = _("The application does not protect the sign-in as this site requires.")
NO_SUCH_SCOPE = _("The application asks for a permission that this site does not have.")
NO_SUCH_ENDPOINT = _(
    "The application asks for an endpoint that this site does not have, or that needs no sign-in."
)
BUSY = _("This site cannot take the request now.")
CHANGED = _("You are signed in with another account now, or the request has changed.")


class RefusedRequest(SignInRefused):
    """An authorization request is refused.

    Attributes:
        happened: what happened, for the person.
        advice: what the person can do.
    """

    def __init__(self, field: str, reason: str, remedy: str, happened: Any, advice: Any) -> None:
        super().__init__(field, reason, remedy)
        self.happened = happened
        self.advice = advice

    @property
    def line(self) -> str:
        """The refusal for the client's makers, in the characters of an `error_description` (RFC 6749 4.1.2.1)."""
        text = "".join(char if " " <= char <= "~" else "?" for char in clean(str(self), 500))
        return text.replace('"', "'").replace("\\", "/")


class DocumentRefused(errors.FatalClientError):
    """No client is made from a document now. It was reported where it was read.

    Attributes:
        refused: what the page says.
    """

    def __init__(self, refused: RefusedRequest, error: str, status: int) -> None:
        self.error = error
        self.refused = refused
        super().__init__(description=refused.line, status_code=status)


_NO_CLIENT = RefusedRequest(
    "client_id",
    "It is missing, or no client has it.",
    "Register the client again, or send the https address of its document.",
    UNKNOWN,
    RECONNECT,
)
_NO_REDIRECT = RefusedRequest(
    "redirect_uri",
    "It is missing, is not one of the client's redirect_uris, or is not allowed.",
    f"Send one of them unchanged, or register the client again. {WANTED}",
    WRONG_PLACE,
    RECONNECT,
)
_NO_RESPONSE_TYPE = RefusedRequest(
    "response_type",
    "It is missing, or the client may not use it.",
    "Send response_type=code, and register the client for the grant authorization_code.",
    FAULTY,
    MAKERS,
)
_NO_CHALLENGE = RefusedRequest(
    "code_challenge",
    "It is missing, and PKCE is required.",
    "Send a code_challenge, and code_challenge_method=S256.",
    UNPROTECTED,
    MAKERS,
)
_WRONG_CHALLENGE = RefusedRequest(
    "code_challenge_method",
    "It is not S256, or the code_challenge is no SHA-256 in base64url.",
    "Send code_challenge_method=S256, and a code_challenge of 43 characters.",
    UNPROTECTED,
    MAKERS,
)
_WRONG_RESOURCE = RefusedRequest(
    "resource",
    "It is not an endpoint that takes tokens of this authorization server.",
    "Send the resource of the metadata that the endpoint's challenge names.",
    NO_SUCH_ENDPOINT,
    CHECK_ADDRESS,
)
_LONG_NONCE = RefusedRequest(
    "nonce",
    "It has more than 255 characters.",
    "Send a shorter one, or none.",
    FAULTY,
    MAKERS,
)
WRONG_PROMPT = RefusedRequest(
    "prompt",
    "This site asks the person each time, and lets clients register nobody.",
    "Leave prompt=none and prompt=create out.",
    FAULTY,
    MAKERS,
)

_BY_CLASS: dict[type[errors.OAuth2Error], RefusedRequest] = {
    errors.MissingClientIdError: _NO_CLIENT,
    errors.InvalidClientIdError: _NO_CLIENT,
    errors.MissingRedirectURIError: _NO_REDIRECT,
    errors.MismatchingRedirectURIError: _NO_REDIRECT,
    errors.InvalidRedirectURIError: _NO_REDIRECT,
    errors.MissingResponseTypeError: _NO_RESPONSE_TYPE,
    errors.UnsupportedResponseTypeError: _NO_RESPONSE_TYPE,
    errors.UnauthorizedClientError: _NO_RESPONSE_TYPE,
    errors.MissingCodeChallengeError: _NO_CHALLENGE,
    errors.UnsupportedCodeChallengeMethodError: _WRONG_CHALLENGE,
}

_BY_CODE = {
    "invalid_target": _WRONG_RESOURCE,
    "login_required": WRONG_PROMPT,
    "consent_required": WRONG_PROMPT,
}


def is_nonce_too_long(nonce: str) -> bool:
    """Return whether a database would refuse to store a nonce."""
    max_length: int = get_grant_model()._meta.get_field("nonce").max_length
    return len(nonce) > max_length


def explain(error: errors.OAuth2Error, request: HttpRequest) -> RefusedRequest:
    """Return what is said of an error of the authorization endpoint."""
    if isinstance(error, DocumentRefused):
        return error.refused
    repeated = find_repeated(request.GET)
    if repeated is not None:
        return RefusedRequest(
            repeated, "It occurs more than once.", "Send each parameter once.", FAULTY, MAKERS
        )
    if is_nonce_too_long(request.GET.get("nonce", "")):
        return _LONG_NONCE
    if isinstance(error, errors.InvalidScopeError):
        return _no_such_scope(request)
    known = _BY_CLASS.get(type(error)) or _BY_CODE.get(error.error)
    return known or RefusedRequest(
        "request",
        f"{error.error}: {error.description or 'it is not valid'}".rstrip(".") + ".",
        "Send a request as RFC 6749 section 4.1.1 describes it.",
        FAULTY,
        MAKERS,
    )


def _no_such_scope(request: HttpRequest) -> RefusedRequest:
    available = get_scopes_backend().get_available_scopes()
    wanted = find_requested(request.GET.get("scope", "").split(), available)
    unknown = " ".join(scope for scope in wanted if scope not in available)
    return RefusedRequest(
        "scope",
        f"This site does not have {unknown[:200]!r}.",
        "Request scopes of scopes_supported in the metadata.",
        NO_SUCH_SCOPE,
        MAKERS,
    )
