"""Send one request to a server in this process, and answer its rounds of questions."""

from __future__ import annotations

import inspect
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from asgiref.sync import sync_to_async

from django_mcp.auth.principal import Principal, make_key
from django_mcp.inprocess.results import MCPError, Unanswered, to_error
from django_mcp.inprocess.unknown import explain_unknown
from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject, decode, encode, present
from django_mcp.protocol.revisions import REVISIONS, Revision, find_revision
from django_mcp.server.engine import Engine
from django_mcp.server.exchange.caller import ANONYMOUS, Caller
from django_mcp.server.exchange.channel import Channel
from django_mcp.server.exchange.connection import ConnectionState
from django_mcp.server.exchange.exchange import Exchange

if TYPE_CHECKING:
    from django.http import HttpRequest

_GIVE_USER = "Pass user=user beside the arguments."

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


class Answerer:
    """Holds the answers to the questions of one or more calls.

    A question is answered by its key, else in the order of the questions, else by a function.
    """

    def __init__(self, given: Answers | None = None) -> None:
        self.by_key: dict[str, Any] = {}
        self.queue: deque[Any] = deque()
        self.function: Callable[[str, JSONObject], Any] | None = None
        self._used: set[str] = set()
        self._last: tuple[str, Any] | None = None
        """The message of the last question that was answered, and its answer."""
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

    async def finish(
        self,
        method: str,
        params: JSONObject,
        send: Callable[[str, JSONObject], Awaitable[JSONObject]],
        on_asked: Callable[[JSONObject, JSONObject], Awaitable[None]] | None = None,
    ) -> JSONObject:
        """Return the result of a request, after all its rounds of questions.

        Args:
            method: of the request. Its questions may have the same keys as those of the last one.
            params: of the first round.
            send: sends one round, and returns its result.
            on_asked: called with the params of the next round, still without answers, and the
                questions by key.
        """
        self._used.clear()
        self._last = None
        for _round in range(MAX_ROUNDS):
            result = await send(method, params)
            if not is_question(result):
                return result
            asked = result.get("inputRequests", {})
            params = {**params, "requestState": result.get("requestState")}
            if on_asked is not None:
                await on_asked(params, asked)
            params["inputResponses"] = await self.answer_all(asked)
        raise MCPError(f"{method} asked in {MAX_ROUNDS} rounds and is not done.")

    async def answer_all(self, questions: Mapping[str, JSONObject]) -> JSONObject:
        """Return the answers to the questions of one round, in the protocol's form."""
        return {
            key: to_answer(question, await self._find(key, questions))
            for key, question in questions.items()
        }

    async def _find(self, key: str, questions: Mapping[str, JSONObject]) -> Any:
        question = questions[key]
        message = _message_of(question)
        if key in self.by_key and key not in self._used:
            self._used.add(key)
            self._last = message, self.by_key[key]
            return self.by_key[key]
        if key not in self.by_key and self.queue:
            self._last = message, self.queue.popleft()
            return self._last[1]
        if self.function is None or key in self.by_key:
            asked = message or f" ({question.get('method')})"
            asked += "" if asked.endswith((".", "?", "!")) else "."
            # The reason why an answer does not fit is added to the message.
            if self._last is not None and message and message.startswith(self._last[0]):
                start = f"The question {key!r} was asked again, because the answer {self._last[1]!r:.100} does not fit"
                known = ""
            else:
                start = f"Nothing answers the question {key!r}"
                names = ", ".join(map(repr, self.by_key))
                known = f" There are answers to {names}." if names else ""
            raise Unanswered(f"{start}{asked} {_how_to_answer(question)}{known}", questions)
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
        for action, short in (("accept", True), ("decline", False), ("cancel", None)):
            if value is short or (isinstance(value, str) and value == action):
                return {"action": action}
        return {"action": "accept", "content": _to_object(question, value)}
    if method == "sampling/createMessage" and isinstance(value, str):
        content = {"type": "text", "text": value}
        return {"role": "assistant", "content": content, "model": "unknown"}
    if method == "roots/list" and not isinstance(value, Mapping | str):
        roots = [{"uri": entry} if isinstance(entry, str) else entry for entry in value]
        return {"roots": roots}
    return _to_object(question, value)


def _to_object(question: JSONObject, value: Any) -> JSONObject:
    content = decode(encode(value))
    if not isinstance(content, dict):
        raise TypeError(
            f"{value!r:.100} is not an answer to this question. {_how_to_answer(question)}"
        )
    return content


def _how_to_answer(question: JSONObject) -> str:
    """Return a sentence with what a question is, and the answers that it takes."""
    method, params = question.get("method"), question.get("params", {})
    if method == "sampling/createMessage":
        return "The client's model is asked: answer with a text."
    if method == "roots/list":
        return "The client is asked for its roots: answer with a list of URIs."
    choices = "False to decline, or None to cancel"
    if params.get("mode") == "url":
        return f"The user is sent to a page: answer with True to accept, {choices}."
    schema = params.get("requestedSchema", {})
    required = schema.get("required", ())
    fields = [
        f"{name} ({'required' if name in required else 'optional'})"
        for name in schema.get("properties", {})
    ]
    if not fields:
        return f"A form without fields is asked: answer with True to accept, {choices}."
    return f"A form is asked: answer with a dict of its fields {', '.join(fields)}, {choices}."


def _message_of(question: JSONObject) -> str:
    message = question.get("params", {}).get("message")
    return f": {' '.join(message.split())[:500]}" if message else ""


class Environment(TypedDict, total=False):
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
    server: Engine, method: str, params: JSONObject, **how: Unpack[Environment]
) -> JSONObject:
    """Return the result of one request, after all its rounds, or raise the server's `MCPError`."""
    given = how.get("answers")
    return await Answerer(given).finish(method, params, partial(_send_once, server, how))


def write_request(
    method: str,
    params: JSONObject,
    revision: Revision | None,
    *,
    capabilities: JSONObject,
    client_info: JSONObject | None = None,
    log_level: str | None = "debug",
    has_progress: bool = True,
) -> JSONObject:
    """Return a client's request, with what its `_meta` lacks; `params` may have keys of its own.

    The declarations of the client are written where the revision has them in each request. None:
    the connection has them.
    """
    meta: JSONObject = {keys.PROGRESS_TOKEN: "progress"} if has_progress else {}
    if revision is not None and revision.is_stateless:
        meta[keys.PROTOCOL_VERSION] = revision.name
        meta[keys.CLIENT_CAPABILITIES] = capabilities
        meta |= present(**{keys.CLIENT_INFO: client_info, keys.LOG_LEVEL: log_level})
    meta |= params.get("_meta", {})
    params = {**params, "_meta": meta} if meta else params
    return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}


def encode_request(message: JSONObject, how_to_be: str) -> bytes:
    """Return a request as it is sent.

    Args:
        message: the request.
        how_to_be: says how a call is made as a user, who was given as an argument.

    Raises:
        TypeError: JSON does not have a value; the text names the argument.
    """
    try:
        return encode(message)
    except TypeError as error:
        given = message.get("params", {}).get("arguments")
        for name, value in given.items() if isinstance(given, Mapping) else ():
            told = _find_fault(name, value, how_to_be)
            if told is not None:
                raise TypeError(told) from error
        raise


def _find_fault(name: str, value: Any, how_to_be: str) -> str | None:
    """Return why an argument cannot be sent, and what to pass; None: it can."""
    try:
        encode(value)
    except TypeError as error:
        kind = type(value).__name__
        if not hasattr(value, "_meta") and not hasattr(value, "is_authenticated"):
            return f"The argument {name!r} cannot be sent: {error}."
        told = f"The argument {name!r} is a {kind}, which JSON does not have."
        if hasattr(value, "is_authenticated"):
            told += f" To call as this user, {how_to_be}."
        return f"{told} Pass its key: {name}={kind.lower()}.pk."
    return None


def is_question(result: JSONObject) -> bool:
    """Return whether a result asks for input instead of being complete."""
    return all(result.get(key) == value for key, value in _NEWEST.interim_fields.items())


async def _send_once(
    server: Engine, how: Environment, method: str, params: JSONObject
) -> JSONObject:
    revision = revision_called(how.get("revision"))
    capabilities = how.get("capabilities")
    if capabilities is None:
        capabilities = {} if how.get("answers") is None else ALL_CAPABILITIES
    request = how.get("request")
    log_level = None if how.get("on_log") is None else how.get("log_level", "debug")
    listens = log_level is not None or how.get("on_progress") is not None
    connection = None
    if not revision.is_stateless or server.revisions.find(revision.name) is not revision:
        # The revision is that of the results, whether or not it is enabled for clients.
        connection = ConnectionState(
            revision, client_capabilities=capabilities, log_level=log_level
        )
    exchange = Exchange(
        connection=connection,
        caller=Caller(
            principal=principal_of(how.get("user")),
            build_request=None if request is None else lambda: request,
            url_kwargs=how.get("url_kwargs") or {},
        ),
        channel=Channel(can_stream=listens, sink=_Listener(how) if listens else None),
    )
    message = write_request(
        method,
        params,
        revision if connection is None else None,
        capabilities=capabilities,
        log_level=log_level,
        has_progress=how.get("on_progress") is not None,
    )
    exchange.body = encode_request(message, "pass user=user beside the arguments")
    reply = await server.answer(exchange)
    if reply.body is None:
        raise MCPError(f"{method} was cancelled.")
    body = decode(reply.body)
    if "error" in body:
        error = to_error(method, body["error"])
        note = explain_unknown(server.registry, error, params, exchange.caller, _GIVE_USER)
        if note is not None:
            error.add_note(note)
        raise error
    result: JSONObject = body["result"]
    return result


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


def revision_called(name: str | None) -> Revision:
    """Return a revision by its name, by default the newest; raise ValueError for an unknown one."""
    if name is None:
        return _NEWEST
    revision = find_revision(name)
    if revision is None:
        known = ", ".join(known_revision.name for known_revision in REVISIONS)
        raise ValueError(f"There is no protocol revision {name!r}: choose from {known}.")
    return revision


class _Listener:
    def __init__(self, how: Environment) -> None:
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
