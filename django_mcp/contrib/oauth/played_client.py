"""One known client, played against a site: from the way it introduces itself to a revoked token."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Barrier
from typing import Any
from urllib.parse import parse_qs, urlsplit

from oauth2_provider.cimd import CIMDError

from django_mcp.auth.scopes import expand_scopes
from django_mcp.contrib.oauth.client_requests import ask_endpoint, authorization_url, post_form
from django_mcp.contrib.oauth.fetcher import fetch_json
from django_mcp.contrib.oauth.key_sets import KeysRefused, read_keys
from django_mcp.contrib.oauth.person import Person
from django_mcp.contrib.oauth.played_rows import PlayedRows
from django_mcp.contrib.oauth.published_clients import PublishedClient
from django_mcp.management.doctor.examination import Finding, bad, good
from django_mcp.management.doctor.http import Answer, Unreachable, ask
from django_mcp.protocol.json import encode

CACHED_S = 15.0
"""How long a site may accept a token that has ended. Its verdicts are cached for two seconds."""

APART_S = 1.0
"""The time between the two registrations of a client that registers twice."""

PRESET = "Use the settings of oauth2_provider_settings()."
LOG = 'The page "Sign-ins" of the admin and the site\'s log say why.'

_PROXY_OR_MIDDLEWARE = "Look for a proxy or a middleware that changes requests to the endpoint."


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayedSite:
    """The site that clients are played against.

    Attributes:
        url: of the endpoint.
        resource, server: its metadata, and the one of its authorization server.
        person: gives the consent; None: clients only introduce themselves.
        rows: the site's database; None: this process does not have it.
    """

    url: str
    resource: Mapping[str, Any]
    server: Mapping[str, Any]
    person: Person | None
    rows: PlayedRows | None


class _Stopped(Exception):
    """A client would stop here."""

    def __init__(self, text: str, fix: str) -> None:
        super().__init__(text)
        self.fix = fix


def find_missing_way(client: PublishedClient, server: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return why a client cannot introduce itself to an authorization server, and the remedy."""
    if client.kind == "registration":
        if server.get("registration_endpoint"):
            return None
        return (
            "dynamic registration is off",
            "Leave DCR_ENABLED on, or give the client an id that you add in the admin.",
        )
    if server.get("client_id_metadata_document_supported") is not True:
        return "metadata documents are off", "Leave OAUTH2_PROVIDER['CIMD_ENABLED'] on."
    if "none" not in (server.get("token_endpoint_auth_methods_supported") or ()):
        return "no client may do without a secret", PRESET
    return None


class Play:
    """One client at one site, which takes one step after another until it stops.

    Attributes:
        passed: the names of the steps that it took.
        stopped: what stopped it.
        client_id, secret, method: how the client authenticates.
        registrations: the addresses that delete its registrations, each with its token.
        access, refresh, scopes: its newest tokens.
        given: all refresh tokens that it got, one of each sign-in.
    """

    def __init__(self, client: PublishedClient, site: PlayedSite) -> None:
        self.client = client
        self.site = site
        self.passed: list[str] = []
        self.stopped: Finding | None = None
        self.client_id = ""
        self.secret = ""
        self.method = "none"
        self.registrations: list[tuple[str, str]] = []
        self.access = ""
        self.refresh = ""
        self.scopes: frozenset[str] = frozenset()
        self.given: list[str] = []
        self._answer: dict[str, str] = {}
        self._verifier = ""

    # -- running

    def attempt(self, name: str, step: Callable[[Play], bool | None]) -> None:
        """Take a step, unless the client stopped. A step returns False if there is nothing to try."""
        if self.stopped is not None:
            return
        try:
            if step(self) is not False and name:
                self.passed.append(name)
        except (_Stopped, Unreachable) as error:
            fix = error.fix if isinstance(error, _Stopped) else LOG
            reason = str(error)
            told = None
            if self.site.rows is not None and self.client_id:
                told = self.site.rows.find_refusal(self.client_id)
            if told is not None and told[0] not in reason:
                reason, fix = f"{reason} ({told[0]})", f"{fix} {told[1]}".strip()
            before = f" It passes: {', '.join(self.passed)}." if self.passed else ""
            text = f"{self.client} fails at {name or 'its end'}: {reason.rstrip('.')}.{before}"
            self.stopped = bad(text, fix)

    def tell(self) -> Finding:
        """Return what became of the client."""
        return self.stopped or good(f"{self.client} passes: {', '.join(self.passed)}")

    def drop(self) -> None:
        """Give back what is left: the tokens, and the registrations."""
        can_revoke = "revocation_endpoint" in self.site.server
        for refresh in self.given if can_revoke else ():
            with suppress(Unreachable):
                self._post("revocation_endpoint", token=refresh)
        for url, token in self.registrations:
            with suppress(Unreachable):
                ask("DELETE", url, None, {"authorization": f"Bearer {token}"})

    # -- steps

    def introduce(self) -> None:
        """Use the client's document, or register it."""
        missing = find_missing_way(self.client, self.site.server)
        if missing is not None:
            raise _Stopped(*missing)
        if self.client.kind == "document":
            self.client_id = self.client.metadata["client_id"]
            if self.site.rows is not None:
                self.site.rows.note_document(self.client_id)
            return
        data = self._register()
        self.client_id, self.secret = data["client_id"], data.get("client_secret", "")
        self.method = data["token_endpoint_auth_method"]

    def register_again(self) -> bool:
        """Register again a second later; the first registration is the one that is used."""
        if not self.client.registers_twice:
            return False
        time.sleep(APART_S)
        self._register()
        return True

    def _register(self) -> dict[str, Any]:
        metadata = self.client.metadata
        endpoint = str(self.site.server["registration_endpoint"])
        answer = ask("POST", endpoint, encode(metadata), {"content-type": "application/json"})
        data = answer.json()
        if answer.status == 429:
            raise _Stopped(
                "too many clients were registered from here in this hour",
                "Wait, or raise DJANGO_MCP['OAUTH_REGISTRATIONS_PER_HOUR'] or "
                "DJANGO_MCP['OAUTH_MAX_REGISTERED'].",
            )
        if answer.status != 201 or not isinstance(data.get("client_id"), str):
            fix = PRESET
            if data.get("error") == "invalid_redirect_uri":
                fix = "Add the address to DJANGO_MCP['OAUTH_APP_REDIRECTS']."
            raise _Stopped(f"the registration answers {_describe(answer)}", fix)
        if self.site.rows is not None:
            self.site.rows.note_registered(data["client_id"])
        place, token = data.get("registration_client_uri"), data.get("registration_access_token")
        if isinstance(place, str) and isinstance(token, str):
            self.registrations.append((place, token))
        for field in ("redirect_uris", "token_endpoint_auth_method"):
            if data.get(field) != metadata[field]:
                raise _Stopped(
                    f"the registration answers another {field}: {data.get(field)}", PRESET
                )
        if not {"authorization_code", "refresh_token"} <= set(data.get("grant_types") or ()):
            raise _Stopped("the registration leaves a grant out that the client needs", PRESET)
        return data

    def ask_for_consent(self) -> None:
        """Let the person allow the scopes that the site names, and those that the client adds."""
        named = self.site.resource.get("scopes_supported") or ()
        self._authorize([*named, *self.client.added_scopes])

    def _authorize(self, scopes: Iterable[str]) -> None:
        if self.site.person is None:
            raise _Stopped("nobody gives the consent", "Name a user with --user.")
        self._verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
        query = {
            "client_id": self.client_id,
            "redirect_uri": self.client.redirect_uri,
            "state": state,
            "resource": str(self.site.resource["resource"]),
            "scope": " ".join(dict.fromkeys(scopes)),
        }
        place = self.site.person(authorization_url(self.site.server, self._verifier, query))
        if place.partition("?")[0] != self.client.redirect_uri:
            raise _Stopped(f"the consent leads to {place[:200]} instead of the client", LOG)
        given = parse_qs(urlsplit(place).query)
        self._answer = {name: values[0] for name, values in given.items()}
        if "code" not in self._answer:
            error = self._answer.get("error"), self._answer.get("error_description")
            raise _Stopped(f"the client gets {' '.join(filter(None, error)) or 'no code'}", LOG)
        if self.site.rows is not None:
            self.site.rows.note_code(self._answer["code"])
        if self._answer.get("state") != state:
            raise _Stopped("the answer's state is another one", LOG)
        if self._answer.get("iss") != self.site.server["issuer"]:
            raise _Stopped("the answer's issuer is another one", "See check django_mcp.O012.")

    def get_tokens(self) -> None:
        """Exchange the code."""
        answer = self._post(
            "token_endpoint",
            grant_type="authorization_code",
            code=self._answer["code"],
            redirect_uri=self.client.redirect_uri,
            code_verifier=self._verifier,
            resource=str(self.site.resource["resource"]),
        )
        self._keep(answer, "the code")
        # Revoking one token of a sign-in ends all of them.
        self.given.append(self.refresh)

    def _keep(self, answer: Answer, what: str) -> None:
        data = answer.json()
        if answer.status != 200:
            raise _Stopped(f"{what} is answered {_describe(answer)}", LOG)
        access, refresh = data.get("access_token"), data.get("refresh_token")
        if not isinstance(access, str) or not isinstance(refresh, str):
            raise _Stopped(f"{what} brings no access token or no refresh token", PRESET)
        if self.site.rows is not None:
            self.site.rows.note_tokens(access, refresh)
        self.access, self.refresh = access, refresh
        self.scopes = frozenset(str(data.get("scope", "")).split())
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        if str(data.get("token_type")).lower() != "bearer" or not is_json:
            raise _Stopped("the tokens are no JSON of type Bearer", _PROXY_OR_MIDDLEWARE)
        if "no-store" not in answer.headers.get("cache-control", ""):
            raise _Stopped("the tokens may be stored by caches", _PROXY_OR_MIDDLEWARE)

    def read_keys(self) -> bool:
        """See that the site can read the keys of a client that signs, whose private keys nobody has here."""
        uri = self.client.metadata.get("jwks_uri")
        if uri is None or self.site.rows is None:
            return False
        try:
            read_keys(fetch_json(uri)[0])
        except (CIMDError, KeysRefused) as error:
            fix = "Let this machine open https connections to it."
            raise _Stopped(f"the client's keys at {uri} cannot be read: {error}", fix) from error
        return True

    def call(self) -> None:
        """List the tools."""
        self._list_tools(self.access)

    def _list_tools(self, token: str) -> list[dict[str, Any]]:
        answer = self._request(token, "tools/list")
        if answer.status == 401:
            raise _Stopped(
                f"the endpoint refuses a good token: {answer.headers.get('www-authenticate')}",
                "Name django_mcp.contrib.oauth.OAuthAuthenticator in AUTHENTICATORS, and let the proxy "
                "pass Authorization on.",
            )
        result = answer.json().get("result")
        if answer.status != 200 or not isinstance(result, dict):
            raise _Stopped(f"the endpoint answers {_describe(answer)}", LOG)
        tools: list[dict[str, Any]] = result.get("tools", [])
        return tools

    def let_expire(self) -> bool:
        """Let the access token expire in the site's database."""
        if self.site.rows is None:
            return False
        self.site.rows.expire(self.access)
        return True

    def meet_expiry(self) -> bool:
        """See that an expired token is refused as clients understand it."""
        if self.site.rows is None:
            return False
        challenge = self._wait_for_refusal("expired")
        for part in ("resource_metadata=", "invalid_token"):
            if part not in challenge:
                raise _Stopped(
                    f"the challenge for an expired token has no {part.rstrip('=')}",
                    _PROXY_OR_MIDDLEWARE,
                )
        return True

    def _wait_for_refusal(self, state: str) -> str:
        deadline = time.monotonic() + CACHED_S
        while True:
            answer = self._request(self.access, "tools/list")
            if answer.status == 401:
                return answer.headers.get("www-authenticate", "")
            if time.monotonic() >= deadline:
                raise _Stopped(
                    f"the endpoint answers {answer.status} to a token that is {state}", LOG
                )
            time.sleep(0.1)

    def renew(self) -> None:
        """Refresh, and use what came."""
        self._keep(self._refresh_with(self.refresh), "the refresh token")
        self._list_tools(self.access)

    def renew_at_once(self) -> bool:
        """Refresh with one token in two processes, each of which uses and refreshes what it got."""
        if not self.client.refreshes_at_once:
            return False
        start = Barrier(2)
        shared = self.refresh

        def refresh(_process: int) -> Answer:
            start.wait()
            return self._refresh_with(shared)

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(refresh, range(2)))
        refused = [answer for answer in answers if answer.status != 200]
        pairs = []
        for answer in sorted(answers, key=lambda each: each.status != 200):
            if answer.status == 200:
                self._keep(answer, "a refresh token that two processes use")
                pairs.append((self.access, self.refresh))
        if refused:
            raise _Stopped(
                f"it refreshes in each of its processes, and one of two is answered {_describe(refused[0])}",
                "Raise DJANGO_MCP['OAUTH_REFRESH_GRACE_S'], whose default is 120.",
            )
        for access, own in pairs:
            self._list_tools(access)
            self._keep(self._refresh_with(own), "the refresh token of one of two processes")
        return True

    def step_up(self) -> bool:
        """Have a tool refused for its scopes, and ask the person for them as well."""
        chosen = self._find_narrow_tool(self._list_tools(self.access))
        if chosen is None:
            return False
        name, arguments, needed = chosen
        answer = self._request(self.access, "tools/call", name=name, arguments=arguments)
        result = answer.json().get("result") or {}
        told = result.get("_meta", {}).get("mcp/www_authenticate") or [""]
        of_status = answer.headers.get("www-authenticate", "") if answer.status == 403 else ""
        challenge = of_status if self.client.challenge == "status" else str(told[0])
        match = re.search(r'scope="([^"]*)"', challenge)
        if match is None:
            form = (
                "status 403" if self.client.challenge == "status" else "a result with a challenge"
            )
            raise _Stopped(
                f"a tool that needs more scopes is not refused by {form}, which this client looks for",
                'Set AUTH_CHALLENGE to "auto".',
            )
        self._authorize([*sorted(self.scopes), *match[1].split()])
        self.get_tokens()
        if not needed <= expand_scopes(self.scopes):
            raise _Stopped(f"the person allows {match[1]}, and the token has less", LOG)
        return True

    def _find_narrow_tool(
        self, tools: Iterable[Mapping[str, Any]]
    ) -> tuple[str, dict[str, Any], frozenset[str]] | None:
        """Return a tool that needs more scopes than the token has, and arguments that it never takes.

        It does not run even if the site lets the call in.
        """
        granted = expand_scopes(self.scopes)
        for tool in tools:
            schema = tool.get("inputSchema", {})
            schemes = tool.get("securitySchemes") or ()
            needed = frozenset(scope for scheme in schemes for scope in scheme.get("scopes") or ())
            if needed <= granted:
                continue
            if schema.get("required"):
                return str(tool["name"]), {}, needed
            if schema.get("additionalProperties") is False:
                return str(tool["name"]), {secrets.token_hex(8): None}, needed
        return None

    def revoke(self) -> bool:
        """Revoke the tokens, as a client does when its person removes the site."""
        if not self.site.server.get("revocation_endpoint"):
            return False
        answer = self._post("revocation_endpoint", token=self.refresh)
        if answer.status != 200:
            raise _Stopped(f"the revocation is answered {_describe(answer)}", LOG)
        return True

    def meet_revocation(self) -> bool:
        """See that both tokens are refused."""
        if not self.site.server.get("revocation_endpoint"):
            return False
        self._wait_for_refusal("revoked")
        answer = self._refresh_with(self.refresh)
        if answer.status == 200:
            self._keep(answer, "a revoked token")
            raise _Stopped("a revoked refresh token brings new ones", PRESET)
        return True

    # -- requests

    def _refresh_with(self, token: str) -> Answer:
        return self._post(
            "token_endpoint",
            grant_type="refresh_token",
            refresh_token=token,
            resource=str(self.site.resource["resource"]),
        )

    def _post(self, endpoint: str, **form: str) -> Answer:
        form["client_id"] = self.client_id
        if self.method == "client_secret_post":
            form["client_secret"] = self.secret
        return post_form(self.site.server, endpoint, form)

    def _request(self, token: str, method: str, **params: Any) -> Answer:
        return ask_endpoint(self.site.url, token, self.client.client_info, method, params)


def _describe(answer: Answer) -> str:
    data = answer.json()
    error = data.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    told = (error, data.get("error_description"))
    return " ".join([str(answer.status), *(str(text)[:300] for text in told if text)])
