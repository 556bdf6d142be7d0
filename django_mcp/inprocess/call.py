"""Send one request to a server in this process, and answer its rounds of questions."""

from __future__ import annotations

import inspect
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from asgiref.sync import sync_to_async

from django_mcp.auth.principal import Principal, make_key
from django_mcp.inprocess.results import MCPError, Unanswered, to_error
from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject, decode, encode
from django_mcp.protocol.revisions import REVISIONS, Revision, find_revision
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import ANONYMOUS, Exchange
from django_mcp.server.server import MCPServer

if TYPE_CHECKING:
    from django.http import HttpRequest

MAX_ROUNDS = 100
"""Rounds of questions in one call; more indicate an endless loop in the handler."""

_NEWEST = REVISIONS[-1]
_ids = itertools.count(1)

Answers: TypeAlias = (
    Mapping[str, Any] | Iterable[Any] | Callable[[str, JSONObject], Any | Awaitable[Any]]
)
"""Answers by the key of their question, in the order of the questions, or a function of both."""

ALL_CAPABILITIES: JSONObject = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}
"""The capabilities of a client that can be asked anything."""

_ACTIONS = ("accept", "decline", "cancel")


class Answerer:
    """Holds the answers to the questions of one or more calls.

    A question is answered by its key, else in the order of the questions, else by a function.
    """

    def __init__(self, given: Answers | None = None) -> None:
        self.by_key: dict[str, Any] = {}
        self.queue: deque[Any] = deque()
        self.function: Callable[[str, JSONObject], Any] | None = None
        self._used: set[str] = set()
        if given is not None:
            self.add(given)

    def add(self, given: Answers) -> None:
        """Add answers of one of the three kinds."""
        if isinstance(given, Mapping):
            self.by_key.update(given)
        elif callable(given):
            self.function = given
        else:
            self.queue.extend(given)

    def begin(self) -> None:
        """Start a new call, whose questions may have the same keys as the last one's."""
        self._used.clear()

    async def answer_all(self, questions: Mapping[str, JSONObject]) -> JSONObject:
        """Return the answers to the questions of one round, in the protocol's form."""
        return {
            key: to_answer(question, await self._find(key, question, questions))
            for key, question in questions.items()
        }

    async def _find(
        self, key: str, question: JSONObject, questions: Mapping[str, JSONObject]
    ) -> Any:
        if key in self.by_key:
            if key in self._used:
                raise Unanswered(
                    f"The question {key!r} was asked again, because the answer "
                    f"{self.by_key[key]!r:.100} does not fit{_message_of(question)}",
                    questions,
                )
            self._used.add(key)
            return self.by_key[key]
        if self.queue:
            return self.queue.popleft()
        if self.function is None:
            raise Unanswered(_describe(key, question, self.by_key), questions)
        if inspect.iscoroutinefunction(self.function):
            return await self.function(key, question)
        # It may ask a person, or query the database.
        return await sync_to_async(self.function, thread_sensitive=True)(key, question)


def to_answer(question: JSONObject, value: Any) -> JSONObject:
    """Return an answer in the protocol's form.

    Args:
        question: in the protocol's form.
        value: for a form its fields (a mapping, or an instance of its class), `True` to accept,
            `False` or `"decline"`, None or `"cancel"`; for the client's model a text or a message;
            for the roots a list of URIs or roots. Another type raises TypeError.
    """
    method = question.get("method")
    if method == "elicitation/create":
        return _to_elicited(value)
    if method == "sampling/createMessage" and isinstance(value, str):
        content = {"type": "text", "text": value}
        return {"role": "assistant", "content": content, "model": "unknown"}
    if method == "roots/list" and not isinstance(value, Mapping | str):
        roots = [{"uri": each} if isinstance(each, str) else each for each in value]
        return {"roots": roots}
    return _to_object(value)


def _to_elicited(value: Any) -> JSONObject:
    if value is True:
        return {"action": "accept"}
    if value is False:
        return {"action": "decline"}
    if value is None:
        return {"action": "cancel"}
    if isinstance(value, str) and value in _ACTIONS:
        return {"action": value}
    return {"action": "accept", "content": _to_object(value)}


def _to_object(value: Any) -> JSONObject:
    found = decode(encode(value))
    if not isinstance(found, dict):
        raise TypeError(f"{value!r:.100} is not an answer to this question.")
    return found


def _describe(key: str, question: JSONObject, given: Mapping[str, Any]) -> str:
    asked = _message_of(question) or f" ({question.get('method')})"
    known = f" There are answers to {', '.join(map(repr, given))}." if given else ""
    return f"Nothing answers the question {key!r}{asked}.{known}"


def _message_of(question: JSONObject) -> str:
    message = question.get("params", {}).get("message")
    return f": {' '.join(message.split())[:500]}" if message else ""


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
    """Return the result of one request, after all its rounds, or raise the server's `MCPError`."""
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

    It has no credentials, so only the user's own permissions restrict it. A user who is not active could
    not authenticate, and raises ValueError.
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
    """Return a revision by its name, by default the newest; raise ValueError for an unknown one."""
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
