"""Send one request to a server in this process, and answer its rounds of questions."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from django_mcp.auth.principal import Principal, make_key
from django_mcp.inprocess.errors import MCPError, to_error
from django_mcp.inprocess.questions import ALL_CAPABILITIES, Answerer, Answers
from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.revisions import REVISIONS, Revision, find_revision
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import ANONYMOUS, Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest

    from django_mcp.server.server import MCPServer

MAX_ROUNDS = 100
"""Rounds of questions in one call; more indicate an endless loop in the handler."""

_NEWEST = REVISIONS[-1]
_ids = itertools.count(1)


class Surroundings(TypedDict, total=False):
    """The user and the listeners of a call in process; all of it is optional.

    Attributes:
        user: an active user, or a principal; without one the call is anonymous.
        answers: answers to questions, by key, in their order, or a function of key and question.
            Without it a tool that has to ask raises `MissingCapability`.
        on_progress: called with progress, total and message (None if they are not sent). It and
            `on_log` run on the event loop, or are coroutine functions; they must not block.
        on_log: called with level, data and logger.
        log_level: the lowest level that `on_log` gets; `debug` by default.
        request: the HTTP request for handlers; by default none.
        url_kwargs: what the URL of the endpoint would have captured.
        capabilities: what the client declares; by default all questions if there are `answers`.
        revision: name of the protocol revision of the results; by default the newest.
    """

    user: Any
    answers: Answers | None
    on_progress: Callable[[float, float | None, str | None], Any] | None
    on_log: Callable[[str, Any, str | None], Any] | None
    log_level: str
    request: HttpRequest | None
    url_kwargs: Mapping[str, Any]
    capabilities: JSONObject
    revision: str | None


async def send(
    server: MCPServer, method: str, params: JSONObject, **how: Unpack[Surroundings]
) -> JSONObject:
    """Return the result of one request, after all its rounds.

    Raises:
        MCPError: the server returned an error.
        ValueError: there is no such revision.
    """
    revision = revision_called(how.get("revision"))
    given = how.get("answers")
    answerer = Answerer(given)
    capabilities = how.get("capabilities")
    if capabilities is None:
        capabilities = {} if given is None else ALL_CAPABILITIES
    for _round in range(MAX_ROUNDS):
        result = await _send_once(server, revision, method, params, capabilities, how)
        if not is_question(result):
            return result
        params = {**params, "requestState": result.get("requestState")}
        params["inputResponses"] = await answerer.answer_all(result.get("inputRequests", {}))
    raise MCPError(f"{method} asked in {MAX_ROUNDS} rounds and is not done.")


def is_question(result: JSONObject) -> bool:
    """Return whether a result asks for input instead of being complete."""
    return all(result.get(key) == value for key, value in _NEWEST.interim_fields.items())


async def _send_once(
    server: MCPServer,
    revision: Revision,
    method: str,
    params: JSONObject,
    capabilities: JSONObject,
    how: Surroundings,
) -> JSONObject:
    request = how.get("request")
    listens = how.get("on_progress") is not None or how.get("on_log") is not None
    exchange = Exchange(
        principal=principal_of(how.get("user")),
        can_stream=listens,
        sink=_Listener(how) if listens else None,
        build_request=None if request is None else lambda: request,
        url_kwargs=how.get("url_kwargs") or {},
        connection=_connect(server, revision, capabilities, how),
    )
    meta: JSONObject = {keys.PROGRESS_TOKEN: "progress"} if how.get("on_progress") else {}
    if exchange.connection is None:
        meta[keys.PROTOCOL_VERSION] = revision.name
        meta[keys.CLIENT_CAPABILITIES] = capabilities
        if how.get("on_log") is not None:
            meta[keys.LOG_LEVEL] = how.get("log_level", "debug")
    message = {
        "jsonrpc": "2.0",
        "id": next(_ids),
        "method": method,
        "params": {**params, "_meta": meta} if meta else params,
    }
    exchange.body = encode(message)
    reply = await server.answer(exchange)
    if reply.body is None:
        raise MCPError(f"{method} was cancelled.")
    body = decode(reply.body)
    if "error" in body:
        raise to_error(method, body["error"])
    found: JSONObject = body["result"]
    return found


def principal_of(user: Any) -> Any:
    """Return the principal of a user; a principal is returned unchanged.

    It has no credentials, so only the user's own permissions restrict it.

    Raises:
        TypeError: it is neither.
        ValueError: the user is not active, so they could not authenticate.
    """
    if user is None:
        return ANONYMOUS
    if user is ANONYMOUS or isinstance(user, Principal):
        return user
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser

    if isinstance(user, AnonymousUser):
        return ANONYMOUS
    if not isinstance(user, AbstractBaseUser):
        raise TypeError(f"user must be a user of the site, a principal or None, not {user!r}")
    if not user.is_active:
        raise ValueError(f"The user {user.get_username()!r} is not active")
    return Principal(key=make_key("in-process", user.pk), user=user)


def _connect(
    server: MCPServer, revision: Revision, capabilities: JSONObject, how: Surroundings
) -> ConnectionState | None:
    """Return the state of an initialized connection; None if the revision has no handshake."""
    if server.revisions.find(revision.name) is revision and revision.is_stateless:
        return None
    # The revision is that of the results, whether or not it is enabled for clients.
    return ConnectionState(
        revision,
        client_capabilities=capabilities,
        log_level=how.get("log_level", "debug") if how.get("on_log") is not None else None,
    )


def revision_called(name: str | None) -> Revision:
    """Return a revision by its name, by default the newest.

    Raises:
        ValueError: there is none of that name.
    """
    if name is None:
        return _NEWEST
    revision = find_revision(name)
    if revision is None:
        known = ", ".join(each.name for each in REVISIONS)
        raise ValueError(f"There is no protocol revision {name!r}: choose from {known}.")
    return revision


class _Listener:
    """Passes a handler's notifications to the callbacks."""

    def __init__(self, how: Surroundings) -> None:
        self._on_progress = how.get("on_progress")
        self._on_log = how.get("on_log")

    async def send(self, message: bytes) -> None:
        """See `Sink.send`."""
        parsed = decode(message)
        params, result = parsed.get("params", {}), None
        match parsed.get("method"):
            case "notifications/progress" if self._on_progress is not None:
                values = params.get("total"), params.get("message")
                result = self._on_progress(params["progress"], *values)
            case "notifications/message" if self._on_log is not None:
                result = self._on_log(params["level"], params["data"], params.get("logger"))
        if inspect.isawaitable(result):
            await result
