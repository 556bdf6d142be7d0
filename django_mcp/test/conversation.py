"""A test client's side of the connection: its capabilities, requests, answers and notifications."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mcp.inprocess.call import MAX_ROUNDS, is_question, principal_of, revision_called
from django_mcp.inprocess.errors import MCPError, Unanswered, to_error
from django_mcp.inprocess.questions import ALL_CAPABILITIES, Answerer
from django_mcp.protocol import headers as names
from django_mcp.protocol.errors import INTERNAL_ERROR
from django_mcp.protocol.json import JSONObject, encode
from django_mcp.test.exchanges import Endpoint, Presence, Response, exchange
from django_mcp.test.messages import (
    CLIENT_INFO,
    LISTENS_TO,
    base_headers,
    mirroring_headers,
    with_meta,
)

if TYPE_CHECKING:
    from django_mcp.registry.entries import ToolEntry

__all__ = ["Conversation", "LogMessage", "Progress", "Question"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """A progress notification of a handler."""

    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogMessage:
    """A log message that a handler sent to its client."""

    level: str
    data: Any
    logger: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question to the client, with `params` in the protocol's form."""

    key: str
    method: str
    params: JSONObject

    @property
    def message(self) -> str | None:
        """The text of the question, if it has one."""
        return self.params.get("message")


class Conversation:
    """What one client has sent and received.

    Attributes:
        progress, logs, questions, notifications: of the last request.
        response: the last one; None before the first.
        answers: every method and its result.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        revision: str | None,
        headers: Mapping[str, str],
        capabilities: JSONObject | None,
        reruns: bool,
    ) -> None:
        self.endpoint = endpoint
        self.revision = revision_called(revision)
        self.headers = dict(headers)
        self.capabilities = ALL_CAPABILITIES if capabilities is None else capabilities
        self.reruns = reruns
        self.principal: Any = None
        self.answerer = Answerer()
        self.progress: list[Progress] = []
        self.logs: list[LogMessage] = []
        self.questions: list[Question] = []
        self.notifications: list[JSONObject] = []
        self.response: Response | None = None
        self.answers: list[tuple[str, JSONObject]] = []
        self._ids = itertools.count(1)
        self._failure: Exception | None = None
        self.forget()

    def log_in(self, user: Any) -> None:
        # Loads models, which importing a client must not.
        from django.contrib.auth.base_user import AbstractBaseUser

        # As in Django's test client, where the cookie of an inactive user is ignored.
        is_out = user is None or (isinstance(user, AbstractBaseUser) and not user.is_active)
        self.principal = None if is_out else principal_of(user)
        # A session belongs to the principal that opened it.
        self.forget()

    def forget(self) -> None:
        """Repeat the handshake before the next request, if the revision has one."""
        self._is_settled = self.revision.is_stateless
        self._session_id: str | None = None
        self.greeting: JSONObject | None = None

    async def request(self, method: str, params: JSONObject) -> JSONObject:
        """Return the result of a request, after all its rounds of questions."""
        await self.settle()
        self.progress, self.logs, self.questions, self.notifications = [], [], [], []
        self.answerer.begin()
        for _round in range(MAX_ROUNDS):
            result = await self._send(method, params)
            if not is_question(result):
                return result
            asked = result.get("inputRequests", {})
            params = {**params, "requestState": result.get("requestState")}
            if self.reruns:
                await self._run_again(method, params, asked)
            self.questions += [
                Question(key=key, method=each["method"], params=each.get("params", {}))
                for key, each in asked.items()
            ]
            params["inputResponses"] = await self.answerer.answer_all(asked)
        raise MCPError(f"{method} asked in {MAX_ROUNDS} rounds and is not done.")

    async def settle(self) -> None:
        """Do the handshake once, if the revision has one."""
        if self._is_settled:
            return
        params = {
            "protocolVersion": self.revision.name,
            "capabilities": self.capabilities,
            "clientInfo": CLIENT_INFO,
        }
        self.greeting = await self._send("initialize", params)
        version = self.greeting["protocolVersion"]
        if version != self.revision.name:
            raise MCPError(f"The server does not speak {self.revision.name}, but {version}.")
        self._is_settled = True
        if self.response is not None:
            self._session_id = self.response.headers.get(names.SESSION_ID)
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, {})
        if self._session_id is not None and "logging" in self.greeting["capabilities"]:
            await self._send("logging/setLevel", {"level": LISTENS_TO})

    async def _send(self, method: str, params: JSONObject) -> JSONObject:
        id_ = next(self._ids)
        if method != "initialize":
            params = with_meta(params, self.revision, self.capabilities)
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        mirrors = self._mirrors(method, params)
        response = await self._post(message, mirrors)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        result = result_of(response, method, id_)
        self.answers.append((method, result))
        return result

    def _mirrors(self, method: str, params: JSONObject) -> dict[str, str]:
        tool: ToolEntry | None = self.endpoint.server.registry.tools.get(params.get("name", ""))
        header_params = tool.header_params if tool is not None and method == "tools/call" else ()
        return mirroring_headers(method, params, self.revision, header_params)

    async def listen(
        self,
        wanted: JSONObject,
        on_message: Callable[[JSONObject], Awaitable[None]],
        presence: Presence,
    ) -> Response:
        """Open a stream of changes, and return its response when it is over."""
        await self.settle()
        if not self.revision.is_stateless:
            return await self._exchange("GET", {}, b"", on_message, presence)
        method = "subscriptions/listen"
        params = with_meta({"notifications": wanted}, self.revision, self.capabilities)
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        mirrors = self._mirrors(method, params)
        return await self._exchange("POST", mirrors, encode(message), on_message, presence)

    async def _post(self, message: JSONObject, mirrors: Mapping[str, str]) -> Response:
        response = await self._exchange("POST", mirrors, encode(message), self._receive)
        if "method" in message:
            self.response = response
        return response

    async def _exchange(
        self,
        verb: str,
        mirrors: Mapping[str, str],
        body: bytes,
        on_message: Callable[[JSONObject], Awaitable[None]],
        presence: Presence | None = None,
    ) -> Response:
        given = {name.lower() for name in self.headers}
        base = base_headers(self.revision, session_id=self._session_id, is_settled=self._is_settled)
        own = {**base, **mirrors}
        headers = {k: v for k, v in own.items() if k.lower() not in given} | self.headers
        return await exchange(
            self.endpoint,
            verb,
            headers,
            body,
            principal=self.principal,
            on_message=on_message,
            presence=presence,
        )

    async def _receive(self, message: JSONObject) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method is None:
            return
        if "id" in message:
            await self._answer(message["id"], method, params)
            return
        self.notifications.append(message)
        if method == "notifications/progress":
            values = params.get("total"), params.get("message")
            self.progress.append(
                Progress(progress=params["progress"], total=values[0], message=values[1])
            )
        elif method == "notifications/message":
            self.logs.append(
                LogMessage(level=params["level"], data=params["data"], logger=params.get("logger"))
            )

    async def _answer(self, id_: Any, method: str, params: JSONObject) -> None:
        """Answer a request of the server, at a revision with sessions."""
        if method == "ping":
            await self._post({"jsonrpc": "2.0", "id": id_, "result": {}}, {})
            return
        # Its key is not sent, but follows from its position.
        key = f"question-{len(self.questions) + 1}"
        self.questions.append(Question(key=key, method=method, params=params))
        reply: JSONObject = {"jsonrpc": "2.0", "id": id_}
        try:
            answers = await self.answerer.answer_all({key: {"method": method, "params": params}})
            reply["result"] = answers[key]
        except (Unanswered, TypeError) as error:
            # An exception here would be raised in the server: the test gets it after the call.
            self._failure = self._failure or error
            reply["error"] = {"code": INTERNAL_ERROR, "message": "The test has no answer to this"}
        await self._post(reply, {})

    async def _run_again(self, method: str, params: JSONObject, asked: JSONObject) -> None:
        """Run the handler once more without answers, and check that it asks the same again."""
        again = await self._send(method, {**params, "inputResponses": {}})
        if not is_question(again):
            raise AssertionError(
                f"Asked {list(asked)}, {method} went on when it was sent again without an answer."
            )
        if again.get("inputRequests", {}) != asked:
            raise AssertionError(
                f"{method} asked {asked} and, run again, {again.get('inputRequests', {})}: what "
                "stands before a question has to come out the same in each round."
            )


def result_of(response: Response, method: str, id_: Any) -> JSONObject:
    """Return the result of a request from its response.

    Raises:
        MCPError: it is an error, or there is none.
    """
    for answer in reversed(response.messages):
        if "error" in answer:
            raise to_error(method, answer["error"], response.status)
        if answer.get("id") == id_ and "result" in answer:
            result: JSONObject = answer["result"]
            return result
    raise MCPError(f"{method} got no answer, HTTP {response.status}", status=response.status)
