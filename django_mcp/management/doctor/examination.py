"""The tests of an endpoint, in the order in which a client would meet the problems, and their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable
from urllib.parse import urljoin, urlsplit, urlunsplit

from django.urls import get_script_prefix
from django.utils.text import capfirst

from django_mcp.auth.addresses import METADATA_PATH, canonical_uri
from django_mcp.endpoints.mounts import find_mounts
from django_mcp.execution.outages import Unmigrated
from django_mcp.management.base import server_at
from django_mcp.management.doctor.http import Answer, Unreachable, ask, next_message, open_response
from django_mcp.protocol import meta as keys
from django_mcp.protocol.errors import HEADER_MISMATCH
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.protocol.names import SEGMENT
from django_mcp.protocol.revisions import REVISIONS
from django_mcp.transports.http.guard import HTTPS_ONLY

PROMPT_S = 3.0
"""What is sent at once arrives within this time, unless something buffers it."""

_NEWEST = REVISIONS[-1].name
_JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was tried.

    Attributes:
        ok: a client gets past it.
        text: the result.
        fix: what to do when it is not ok; beside a note, how to have more tried.
    """

    ok: bool
    text: str
    fix: str = ""


def good(text: str) -> Finding:
    """Return a finding that is no problem."""
    return Finding(ok=True, text=text)


def note(text: str, how: str) -> Finding:
    """Return what is no problem for a client, such as what was not tried, with what to do about it."""
    return Finding(ok=True, text=text, fix=how)


def bad(text: str, fix: str) -> Finding:
    """Return a finding that is a problem, with its remedy."""
    return Finding(ok=False, text=text, fix=fix)


def judge(condition: object, text: str, problem: str, fix: str) -> Finding:
    """Return a finding that is no problem if the condition holds, else one with its remedy."""
    return good(text) if condition else bad(problem, fix)


Examination: TypeAlias = Callable[[str], Iterator[Finding]]
"""Takes an access token, and yields what a client that has it finds."""


@runtime_checkable
class OAuthExaminer(Protocol):
    """An installed app that can play the OAuth flow, such as `django_mcp.contrib.oauth`.

    Its `AppConfig` is one by having the method.
    """

    def examine_oauth(
        self, url: str, user: Any | None, examine: Examination | None, clients: Sequence[str]
    ) -> Iterable[Finding]:
        """Return what clients find that know nothing but the endpoint's URL, in their order.

        Args:
            url: of the endpoint.
            user: gives the consent; None: no token is requested.
            examine: what else is tried while a client has a token.
            clients: the names of the known clients that are played; empty: all.

        Raises:
            LookupError: no client has one of the names.
        """


def examine(
    url: str,
    publish: Callable[[], object] | None,
    token: str = "",
    *,
    credentials: str,
    address: str | None = None,
) -> Iterator[Finding]:
    """Yield what a client finds at an endpoint.

    Args:
        url: of the endpoint.
        publish: notifies clients of a change from this process; the endpoint runs in another.
        token: credentials, if the server requires some.
        credentials: advice how to give some that the server accepts.
        address: the URL by which clients know the endpoint, if it is another one.

    Raises:
        Unreachable: nothing responds there.
    """
    headers = _headers_with(token)
    discovered = _discover(url, headers)
    if discovered.status == 401:
        if token:
            yield _refused(discovered, credentials)
        else:
            yield from _check_sign_in(url, address or url, discovered, credentials)
        return
    yield from _check_endpoint(url, discovered)
    if discovered.status != 200:
        return
    parts = urlsplit(url)
    path = parts.path.removesuffix("/") if parts.path.endswith("/") else parts.path + "/"
    other = urlunsplit(parts._replace(path=path))
    yield judge(
        _discover(other, headers).status == 200,
        "It answers with and without a slash at the end",
        f"It does not answer at {path}",
        "Include django_mcp.urls rather than naming the view: it has both forms.",
    )
    if SEGMENT not in parts.path:
        narrowed = f"{parts.path.rstrip('/')}{SEGMENT}doctor"
        answer = _discover(urlunsplit(parts._replace(path=narrowed)), headers)
        # A token may be for the address without toolsets alone.
        if answer.status in (200, 401) and _is_json(answer):
            yield good("It answers at the paths with toolsets")
        else:
            yield note(
                f"It does not answer at {narrowed}, so clients cannot narrow it by the path",
                "Let the proxy pass on all that is below the path of the endpoint.",
            )
    answer = ask("POST", url, b"{", headers)
    yield judge(
        answer.status == 400 and _is_json(answer),
        "Errors are JSON",
        f"A malformed message is answered {answer.status} with something else than JSON",
        "Keep error pages and CSRF checks of the site away from the endpoint.",
    )
    origin = _discover(url, {**headers, "Origin": "https://stranger.invalid"}).status
    host = _discover(url, {**headers, "Host": "stranger.invalid"}).status
    yield judge(
        origin == 403,
        "Pages of other sites are rejected",
        f"A page of another site may call the server (status {origin})",
        'List the origins you trust in DJANGO_MCP["ALLOWED_ORIGINS"] instead of "*".',
    )
    yield judge(
        400 <= host < 500,
        "A foreign Host is rejected",
        f"A foreign Host is served (status {host})",
        "Set ALLOWED_HOSTS.",
    )
    yield from _handshake(url, headers)
    yield from _stream(url, headers, publish)


def _headers_with(token: str) -> dict[str, str]:
    return {**_JSON, **({"Authorization": f"Bearer {token}"} if token else {})}


def send(
    url: str,
    token: str,
    method: str,
    params: JSONObject,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Return the response to one request of the newest revision."""
    body, own = _modern(method, **params)
    return ask("POST", url, body, {**_headers_with(token), **own, **(headers or {})})


def _modern(method: str, **params: object) -> tuple[bytes, dict[str, str]]:
    meta: JSONObject = {keys.PROTOCOL_VERSION: _NEWEST, keys.CLIENT_CAPABILITIES: {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return encode(message), {"MCP-Protocol-Version": _NEWEST, "Mcp-Method": method}


def _discover(url: str, headers: Mapping[str, str]) -> Answer:
    body, own = _modern("server/discover")
    return ask("POST", url, body, {**headers, **own})


def _refused(answer: Answer, credentials: str) -> Finding:
    if "www-authenticate" not in answer.headers:
        return _unchallenged()
    return bad(
        "The token is refused",
        "It may be mistyped, expired, revoked, or for another server: the site's log says "
        f"why. {credentials}",
    )


def _check_sign_in(url: str, address: str, answer: Answer, credentials: str) -> Iterator[Finding]:
    """Yield whether a client without a token finds out how to get one."""
    challenge = answer.headers.get("www-authenticate", "")
    if not challenge:
        yield _unchallenged()
        return
    yield good("The endpoint asks clients to sign in, with 401 and WWW-Authenticate")
    if "resource_metadata=" in challenge:
        yield judge_metadata(url, address, *read_metadata(url))
    yield note("Without a token nothing else was tried", credentials)


def _unchallenged() -> Finding:
    return bad(
        "A client is rejected without a challenge that describes how to authenticate",
        "Answer 401 with WWW-Authenticate; the authenticators of django_mcp do.",
    )


def read_metadata(url: str) -> tuple[str, JSONObject]:
    """Return where the metadata of an endpoint is, and the document; an empty one if there is none."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}{METADATA_PATH}{parts.path.rstrip('/')}"
    try:
        answer = ask("GET", place)
    except Unreachable:
        return place, {}
    return place, answer.json() if answer.status == 200 else {}


def judge_metadata(
    url: str, address: str, place: str, document: JSONObject, *, reader: str = ""
) -> Finding:
    """Return whether clients find out from the metadata of an endpoint where to sign in.

    Args:
        url: of the endpoint that is examined.
        address: the URL by which clients know it.
        place: the URL of the metadata.
        document: the metadata.
        reader: begins the text of the finding.
    """
    issuers = document.get("authorization_servers")
    if not isinstance(issuers, list) or not issuers:
        return bad(
            capfirst(f"{reader}no metadata at {place} names an authorization server"),
            "Include django_mcp.urls at the root of the URLconf, and let the proxy pass /.well-known/ on.",
        )
    named = document.get("resource")
    wanted = {canonical_uri(url), canonical_uri(address)}
    return judge(
        isinstance(named, str) and canonical_uri(named) in wanted,
        capfirst(f"{reader}the metadata of the endpoint is found"),
        capfirst(f"{reader}the metadata is about {named}, and clients ask for {address}"),
        "Set PUBLIC_URL to the address that clients use, and give the same to --url.",
    )


def _find_elsewhere(url: str) -> list[str]:
    """Return the URLs of the site's endpoints, if none of them is at this one."""
    paths = [] if server_at(url) else [mount.path.rstrip("/") for mount in find_mounts()]
    return [urljoin(url, get_script_prefix() + path[1:]) for path in dict.fromkeys(paths)]


def _check_endpoint(url: str, answer: Answer) -> Iterator[Finding]:
    if answer.status == 200 and "result" in answer.json():
        yield good("The endpoint answers")
    elif answer.status in (301, 302, 307, 308):
        yield bad(
            f"The endpoint redirects to {answer.headers.get('location', '?')[:200]}",
            "Name the URL without a redirect: clients do not follow one with a POST. "
            "A redirect to https or to a login page comes from the site's middleware.",
        )
    elif answer.status == 404 and not _is_json(answer) and (urls := _find_elsewhere(url)):
        fix = f"Name an endpoint of the site with --url: {', '.join(urls)}."
        yield bad("The URLconf has no endpoint at this path, and the site answers 404", fix)
    elif not _is_json(answer):
        yield bad(
            f"The endpoint answers {answer.status} with a page, not with JSON",
            "Something stands in front of it: a proxy, the site's middleware, or another URL "
            "pattern. With django_mcp_application in asgi.py the site's middleware does not run.",
        )
    else:
        text = str(_error_of(answer).get("message", ""))[:300]
        fix = "The text says why; the site's log may say more."
        if text == Unmigrated.message:
            fix = "Run manage.py migrate, then start the site again."
        elif text.startswith(HTTPS_ONLY):
            fix = "Give --url the https address. See SECURE_PROXY_SSL_HEADER if a proxy ends TLS."
        yield bad(f"The endpoint refuses with {answer.status}: {text}", fix)


def _handshake(url: str, headers: Mapping[str, str]) -> Iterator[Finding]:
    params = {
        "protocolVersion": next(
            revision.name for revision in reversed(REVISIONS) if not revision.is_stateless
        ),
        "capabilities": {},
        "clientInfo": {"name": "doctor", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = ask("POST", url, encode(message), headers)
    session = answer.headers.get("mcp-session-id")
    if answer.status != 200 or "error" in answer.json():
        error = _error_of(answer)
        if answer.status == 400 and error.get("code") == HEADER_MISMATCH:
            # It rejects a handshake on purpose.
            yield good(
                "Clients that use a handshake get an error that names the stateless revision"
            )
            return
        fix = "The text says why; the site's log may say more."
        if answer.status == 503:
            fix = (
                "Sessions are kept in the database: run manage.py migrate, and see that the database "
                "is up. The site's log says more."
            )
        text = str(error.get("message", "")) or "no text"
        yield bad(f"A handshake fails with {answer.status}: {text[:300]}", fix)
        return
    if session is None:
        yield good("Clients that use a handshake are served, without a session")
        return
    named = {**headers, "Mcp-Session-Id": session}
    ping = encode({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    # Several requests, so that each worker behind the URL is likely to get one.
    statuses = {ask("POST", url, ping, named).status for _ in range(8)}
    ask("DELETE", url, None, named)
    yield judge(
        statuses == {200},
        "A session is found again",
        f"A session is lost between requests (statuses {sorted(statuses)})",
        'Several workers need DJANGO_MCP["SESSION_STORE"] = "model" and one database.',
    )


def _stream(
    url: str, headers: Mapping[str, str], publish: Callable[[], object] | None
) -> Iterator[Finding]:
    body, own = _modern("subscriptions/listen", notifications={"toolsListChanged": True})
    try:
        with open_response("POST", url, body, {**headers, **own}, PROMPT_S) as response:
            if response.status == 404:
                yield bad(
                    "Nothing can be pushed: answers cannot stream here",
                    "Serve the site over ASGI, with django_mcp_application in asgi.py.",
                )
                return
            if not next_message(response):
                yield _buffered()
                return
            yield good("Events arrive as they are sent")
            if publish is None:
                yield note(
                    "Changes in another process were not tried: the URLconf has no server at this path",
                    "Name the server with --server.",
                )
                return
            publish()
            yield judge(
                "list_changed" in str(next_message(response).get("method")),
                "A change in another process reaches clients",
                "A change in another process does not reach clients",
                "Use a shared channel layer (channels_redis), or keep sessions in the database, and "
                "give this command the settings of the site.",
            )
    except Unreachable:
        yield _buffered()


def _buffered() -> Finding:
    return bad(
        "Events do not arrive as they are sent",
        "Switch buffering off in the proxy (nginx: proxy_buffering off), and keep middleware "
        "that compresses or collects responses away from the endpoint.",
    )


def _error_of(answer: Answer) -> JSONObject:
    error = answer.json().get("error")
    return error if isinstance(error, dict) else {}


def _is_json(answer: Answer) -> bool:
    return answer.headers.get("content-type", "").startswith("application/json")
