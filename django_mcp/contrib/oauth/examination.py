"""Doctor's tests of OAuth: as an MCP client, from the first 401 to the end of a token."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.db import DatabaseError

from django_mcp.auth.addresses import METADATA_PATH, canonical_uri
from django_mcp.contrib.oauth.client_requests import authorization_url, post_form
from django_mcp.contrib.oauth.person import PageRefuses, Person, signed_in
from django_mcp.contrib.oauth.played_client import PlayedSite
from django_mcp.contrib.oauth.played_rows import PlayedRows
from django_mcp.contrib.oauth.playing import play_clients
from django_mcp.contrib.oauth.published_clients import PublishedClient, read_published_clients
from django_mcp.management.doctor.examination import Examination, Finding, bad, good, judge
from django_mcp.management.doctor.http import Answer, Unreachable, ask
from django_mcp.protocol.json import encode

REDIRECT = "http://127.0.0.1:33418/callback"
NOBODY = "https://stranger.invalid/callback"
SERVER_PATH = "/.well-known/oauth-authorization-server"
PING = encode({"jsonrpc": "2.0", "id": 1, "method": "ping"})
PING_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


class _Stop(Exception):
    """A client cannot continue."""


def run(
    url: str,
    person: Person | None = None,
    examine: Examination | None = None,
    *,
    rows: PlayedRows | None = None,
    clients: Sequence[PublishedClient] | None = None,
) -> list[Finding]:
    """Return what clients that know only the endpoint's URL find, in their order.

    Args:
        url: of the endpoint, such as `https://shop.example.com/mcp`.
        person: gives the consent; None: no token is requested.
        examine: further tests for which the client needs a token.
        rows: the site's database, if this process has it: tokens can be made to expire, and nothing is left.
        clients: the known clients that are played; None: all.
    """
    return list(examine_site(url, person, examine, rows, clients))


def examine_site(
    url: str,
    person: Person | None,
    examine: Examination | None,
    rows: PlayedRows | None,
    clients: Sequence[PublishedClient] | None,
) -> Iterator[Finding]:
    """Yield what `run` returns."""
    known = read_published_clients() if clients is None else clients
    client = _Client(url, rows)
    try:
        try:
            yield from client.discover()
        except _Stop:
            names = ", ".join(dict.fromkeys(client.name for client in known))
            yield bad(
                f"No client gets further: {names}.", "Mend this first: the rest is tried then."
            )
            return
        try:
            yield from client.go(person, examine)
        except _Stop:
            pass
        except Unreachable as error:
            yield bad(str(error), "Look at the site's log, and at what answers in front of it.")
        site = PlayedSite(
            url=url, resource=client.resource, server=client.server, person=person, rows=rows
        )
        yield from play_clients(site, known)
    except Unreachable as error:
        yield bad(str(error), "Start the site, or correct the URL.")
    finally:
        if rows is not None:
            rows.remove()


def examine_as(
    user: Any | None, url: str, examine: Examination | None, clients: Sequence[PublishedClient]
) -> Iterator[Finding]:
    """Yield what clients find that a user of the database of this process signs in, if there is one."""
    with ExitStack() as stack:
        person = rows = None
        if user is not None:
            try:
                person, rows = stack.enter_context(signed_in(user)), PlayedRows()
            except DatabaseError as error:
                yield bad(
                    f"Nobody can be signed in, since the session cannot be stored: {error}.",
                    "Let this command write to the site's database. What needs no person is tried.",
                )
        yield from examine_site(url, person, examine, rows, clients)


class _Client:
    """One client at one endpoint, whose steps yield their findings.

    Attributes:
        resource, server: the two metadata documents, once they are read.
        client_id, management: of its registration; the second is where and how to delete it.
        state, verifier: of its one authorization.
    """

    def __init__(self, url: str, rows: PlayedRows | None) -> None:
        self.url = url
        self.rows = rows
        self.metadata_url = ""
        self.resource: dict[str, Any] = {}
        self.server: dict[str, Any] = {}
        self.client_id = ""
        self.management: tuple[str | None, str | None] = (None, None)
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(16)

    def discover(self) -> Iterator[Finding]:
        yield from self.check_challenge()
        yield from self.read_resource()
        yield from self.read_server()

    def go(self, person: Person | None, examine: Examination | None) -> Iterator[Finding]:
        yield from self.register()
        try:
            yield from self.try_to_cheat(person)
            if person is not None:
                yield from self.get_and_lose_a_token(person, examine)
        finally:
            self.drop()

    # -- metadata and registration

    def check_challenge(self) -> Iterator[Finding]:
        answer = ask("POST", self.url, PING, PING_HEADERS)
        challenge = answer.headers.get("www-authenticate", "")
        if answer.status not in (401, 403) and answer.status < 500:
            yield bad(
                "The endpoint answers without a token, so clients never start OAuth.",
                "Take PUBLIC out, and name an authenticator in AUTHENTICATORS.",
            )
            raise _Stop
        if answer.status != 401 or not re.search(r"\bbearer\b", challenge, re.IGNORECASE):
            yield bad(
                f"Without a token the endpoint answers {answer.status}, not 401 with a challenge.",
                "Name django_mcp.contrib.oauth.OAuthAuthenticator in AUTHENTICATORS.",
            )
            raise _Stop
        yield good("Without a token the endpoint answers 401 and a Bearer challenge.")
        match = re.search(r'resource_metadata="([^"]+)"', challenge)
        self.metadata_url = match[1] if match else ""
        if not match:
            yield bad(
                "The challenge names no resource_metadata, which some clients rely on.",
                "Include django_mcp.urls at the root of the URLconf.",
            )

    def read_resource(self) -> Iterator[Finding]:
        parts = urlsplit(self.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        places = [self.metadata_url, f"{origin}{METADATA_PATH}{parts.path.rstrip('/')}"]
        for place in dict.fromkeys(filter(None, places)):
            document = self.read(place)
            if document is None:
                yield bad(
                    f"There is no resource metadata at {place}.",
                    "Include django_mcp.urls at the root of the URLconf, and let the proxy pass "
                    "/.well-known/ on.",
                )
                continue
            self.resource = self.resource or document
        if not self.resource:
            raise _Stop
        named = self.resource.get("resource")
        if not isinstance(named, str) or canonical_uri(named) != canonical_uri(self.url):
            yield bad(
                f"The metadata is about {named}, and the client asked for {self.url}.",
                "Set DJANGO_MCP['PUBLIC_URL'] to the address that clients use, or make the proxy "
                "pass Host and the scheme on (SECURE_PROXY_SSL_HEADER).",
            )
            raise _Stop
        if not self.resource.get("authorization_servers"):
            yield bad(
                "The metadata names no authorization server.", "Name one, or use this site's."
            )
            raise _Stop
        yield good(f"The resource metadata is about {named}.")

    def read_server(self) -> Iterator[Finding]:
        issuer = str(self.resource["authorization_servers"][0])
        parts = urlsplit(issuer)
        place = f"{parts.scheme}://{parts.netloc}{SERVER_PATH}{parts.path.rstrip('/')}"
        document = self.read(place)
        if document is None:
            yield bad(
                f"There is no authorization server metadata at {place}.",
                "Include django_mcp.urls at the root of the URLconf.",
            )
            raise _Stop
        self.server = document
        if document.get("issuer") != issuer:
            yield bad(
                f"The metadata's issuer is {document.get('issuer')}, and {issuer} was expected.",
                "Leave OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT'] out, or make it the PUBLIC_URL.",
            )
            raise _Stop
        missing = [key for key in _ENDPOINTS if not isinstance(document.get(key), str)]
        if missing:
            yield bad(
                f"The metadata names no {' and no '.join(missing)}.",
                "Include django_mcp.contrib.oauth.urls in the URLconf.",
            )
            raise _Stop
        yield good(f"The authorization server is {issuer}.")
        for key, wanted, setting in _WANTED:
            if wanted not in (document.get(key) or ()):
                yield bad(
                    f"The metadata's {key} has no {wanted!r}.",
                    f"Set OAUTH2_PROVIDER[{setting!r}] as oauth2_provider_settings() does.",
                )
        if document.get("code_challenge_methods_supported") != ["S256"]:
            yield bad("PKCE by other methods than S256 is offered.", "Refuse them.")
        insecure = [
            f"{key} ({url})"
            for key, url in document.items()
            if key.endswith("_endpoint")
            if not _is_safe(str(url), self.url)
        ]
        if insecure:
            yield bad(
                f"Not https, or of another host: {', '.join(insecure)}.",
                "Set DJANGO_MCP['PUBLIC_URL'] to the https address that clients use.",
            )

    def register(self) -> Iterator[Finding]:
        yield judge(
            self.server.get("client_id_metadata_document_supported") is True,
            "Clients may use a metadata document as their id.",
            "Client-id metadata documents are off, and newer clients have nothing else.",
            "Set OAUTH2_PROVIDER['CIMD_ENABLED'] to True.",
        )
        endpoint = self.server.get("registration_endpoint")
        if endpoint is None:
            yield good("Dynamic registration is off.")
            raise _Stop
        body = encode(
            {
                "client_name": "mcp_doctor",
                "redirect_uris": [REDIRECT],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            }
        )
        answer = ask("POST", endpoint, body, {"Content-Type": "application/json"})
        if answer.status == 429:
            yield bad(
                "Too many clients were registered from here in this hour.",
                "Wait, or raise DJANGO_MCP['OAUTH_REGISTRATIONS_PER_HOUR'].",
            )
            raise _Stop
        data = answer.json()
        if answer.status != 201 or not isinstance(data.get("client_id"), str):
            yield bad(
                f"Registration answers {answer.status}: {data.get('error_description', '')}",
                "Let anybody register: DCR_REGISTRATION_PERMISSION_CLASSES as "
                "oauth2_provider_settings() has it.",
            )
            raise _Stop
        self.client_id = data["client_id"]
        if self.rows is not None:
            self.rows.note_registered(self.client_id)
        self.management = (
            data.get("registration_client_uri"),
            data.get("registration_access_token"),
        )
        yield good("A client can register itself.")

    # -- attacks

    def try_to_cheat(self, person: Person | None) -> Iterator[Finding]:
        attempts: dict[str, dict[str, str | None]] = {
            "without PKCE": {"code_challenge": None, "code_challenge_method": None},
            "with PKCE's method plain": {"code_challenge_method": "plain"},
            "for a redirect that was not registered": {"redirect_uri": NOBODY},
            "for somebody else's resource": {"resource": "https://stranger.invalid/mcp"},
        }
        for how, changes in attempts.items():
            if not self._is_refused(self.authorization_url(**changes), person):
                yield bad(
                    f"An authorization {how} is not refused.",
                    "Use the settings of oauth2_provider_settings().",
                )
        page = ask("GET", self.authorization_url())
        if page.status not in (200, 302) or page.headers.get("location", "").startswith(REDIRECT):
            yield bad(
                f"The authorization page answers {page.status} to a valid request.",
                "Look at LOGIN_URL and the site's log.",
            )
            raise _Stop
        yield good("The authorization page asks people to sign in.")

    def _is_refused(self, url: str, person: Person | None) -> bool:
        """Return whether the authorization endpoint refuses a request that nobody may allow."""
        if person is not None:
            try:
                place = person(url)
            except PageRefuses:
                return True
        else:
            # The page may ask to sign in first, and look at the request only then.
            answer = ask("GET", url)
            place = answer.headers.get("location", "")
            if answer.status == 200 and not place:
                return False
        query = parse_qs(urlsplit(place).query)
        return not place.startswith(NOBODY) and "code" not in query

    # -- tokens

    def get_and_lose_a_token(
        self, person: Person, examine: Examination | None
    ) -> Iterator[Finding]:
        query = parse_qs(urlsplit(person(self.authorization_url())).query)
        answer = {name: values[0] for name, values in query.items()}
        if "code" not in answer:
            yield bad(f"There is no code: {answer.get('error', 'no error')}.", "Allow the client.")
            raise _Stop
        if answer.get("state") != self.state or answer.get("iss") != self.server["issuer"]:
            yield bad("The answer's state or issuer is another one.", "See check django_mcp.O012.")
        form = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": REDIRECT,
            "client_id": self.client_id,
            "code_verifier": self.verifier,
            "resource": self.url,
        }
        tokens = post_form(self.server, "token_endpoint", form)
        if tokens.status != 200:
            yield bad(f"The code is not taken: {tokens.json()}.", "Look at the site's log.")
            raise _Stop
        access = self._note(tokens)
        yield from self._use(access, "The endpoint takes the token.", is_good=True)
        if examine is not None:
            yield from examine(access)
        refresh = {
            "grant_type": "refresh_token",
            "refresh_token": tokens.json().get("refresh_token", ""),
            "client_id": self.client_id,
        }
        refreshed = post_form(self.server, "token_endpoint", refresh)
        if refreshed.status != 200:
            yield bad("The token cannot be refreshed.", "See check django_mcp.O004.")
            raise _Stop
        yield good("The token can be refreshed.")
        newer = self._note(refreshed)
        if "revocation_endpoint" in self.server:
            form = {"token": newer, "client_id": self.client_id}
            post_form(self.server, "revocation_endpoint", form)
            yield from self._use(newer, "A revoked token is refused.", is_good=False)

    def _note(self, answer: Answer) -> str:
        data = answer.json() or {}
        access = data.get("access_token")
        if not isinstance(access, str):
            raise Unreachable("The token endpoint answers 200 without a token.")
        if self.rows is not None:
            self.rows.note_tokens(access, data.get("refresh_token", ""))
        return access

    def _use(self, token: str, text: str, *, is_good: bool) -> Iterator[Finding]:
        headers = {**PING_HEADERS, "Authorization": f"Bearer {token}"}
        answer = ask("POST", self.url, PING, headers)
        # After authentication the message may be rejected for lack of a session, which is fine here.
        was_let_in = answer.status not in (401, 403) and answer.status < 500
        state = "good" if is_good else "revoked"
        yield judge(
            was_let_in is is_good,
            text,
            f"The endpoint answers {answer.status} to a token that is {state}.",
            "Name django_mcp.contrib.oauth.OAuthAuthenticator in AUTHENTICATORS.",
        )

    # -- requests

    def authorization_url(self, **changes: str | None) -> str:
        """Return the URL for a person; `changes` replace parameters, None removes one."""
        scopes = self.resource.get("scopes_supported") or self.server.get("scopes_supported") or ()
        query = {
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "state": self.state,
            "resource": str(self.resource["resource"]),
            "scope": " ".join(scopes),
        }
        return authorization_url(self.server, self.verifier, query, **changes)

    def read(self, url: str) -> dict[str, Any] | None:
        """Return a metadata document, or None."""
        answer = ask("GET", url)
        return answer.json() if answer.status == 200 and answer.json() else None

    def drop(self) -> None:
        """Delete the client."""
        url, token = self.management
        if url and token:
            ask("DELETE", url, None, {"Authorization": f"Bearer {token}"})


_ENDPOINTS = ("authorization_endpoint", "token_endpoint")

_WANTED = (
    ("response_types_supported", "code", "OAUTH2_RESPONSE_TYPES_SUPPORTED"),
    ("grant_types_supported", "authorization_code", "OAUTH2_GRANT_TYPES_SUPPORTED"),
    ("grant_types_supported", "refresh_token", "OAUTH2_GRANT_TYPES_SUPPORTED"),
    (
        "token_endpoint_auth_methods_supported",
        "none",
        "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED",
    ),
)


def _is_safe(url: str, endpoint: str) -> bool:
    parts, known = urlsplit(url), urlsplit(endpoint)
    return parts.netloc == known.netloc and parts.scheme in ("https", known.scheme)
