"""The base of both test clients: its capabilities, requests, answers and notifications."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from msgspec import convert

from django_mcp.inprocess.call import (
    ALL_CAPABILITIES,
    Answerer,
    encode_request,
    is_question,
    principal_of,
    revision_called,
    write_request,
)
from django_mcp.inprocess.results import (
    MCPError,
    Unanswered,
    to_error,
)
from django_mcp.inprocess.unknown import explain_unknown
from django_mcp.protocol import headers as names
from django_mcp.protocol.errors import INTERNAL_ERROR
from django_mcp.protocol.headers import encode_value, find_argument
from django_mcp.protocol.json import JSONObject
from django_mcp.servers import MCPServer, choose_server
from django_mcp.test.exchanges import ClientSide, ObservedServer, ReceivedResponse, find_endpoint
from django_mcp.test.results import ClientCallResult, UnnoticedError
from django_mcp.transports.http.consumer import MCPConsumer

CLIENT_INFO: JSONObject = {"name": "django-mcp-test-client", "version": "1"}

_LOG_IN = (
    "Log in with force_login(user), or send credentials: headers={'Authorization': 'Bearer ...'}."
)

MAX_FAILED = 100
"""Results of failed calls that are kept until the end of a test."""

LISTENS_TO = "debug"
"""The lowest level of the log messages that the client asks for."""


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


class BaseClient:
    """The requests and answers of a test client, and what it received; see `MCPClient`."""

    def __init__(
        self,
        server: MCPServer | None = None,
        *,
        path: str | None = None,
        revision: str | None = None,
        user: Any = None,
        headers: Mapping[str, str] | None = None,
        capabilities: JSONObject | None = None,
        reruns: bool = False,
    ) -> None:
        endpoint: Any = find_endpoint(choose_server(server), path)
        self.server: MCPServer = endpoint[0]
        self._path, self._url_kwargs = endpoint[1:]
        self._revision = revision_called(revision)
        self.headers = dict(headers or {})
        self._capabilities = ALL_CAPABILITIES if capabilities is None else capabilities
        self._reruns = reruns
        self._principal: Any = None
        self._answerer = Answerer()
        self._has_asked_since = False
        """Whether a request was sent after the last `answer`."""
        self._failed: deque[ClientCallResult] = deque(maxlen=MAX_FAILED)
        self.progress: list[Progress] = []
        self.logs: list[LogMessage] = []
        self.questions: list[Question] = []
        self.notifications: list[JSONObject] = []
        self.response: ReceivedResponse | None = None
        self.task: JSONObject | None = None
        self.task_limit_s = 60.0
        self._results: list[tuple[str, JSONObject]] = []
        self._failure: Exception | None = None
        self.force_login(user)

    @property
    def revision(self) -> str:
        """The name of the protocol revision that the client uses."""
        return self._revision.name

    def force_login(self, user: Any) -> None:
        """Send every request as this user (or principal), whatever the headers say.

        An inactive user is not logged in, as in Django's test client.
        """
        if user is not None:
            # Loads `django.db`, which importing a client must not.
            from django.contrib.auth.base_user import AbstractBaseUser

            if isinstance(user, AbstractBaseUser) and not user.is_active:
                user = None
        self._principal = None if user is None else principal_of(user)
        # A session belongs to the principal that opened it: the handshake is repeated.
        self._is_settled = self._revision.is_stateless
        self._session_id: str | None = None
        self._greeting: JSONObject | None = None

    def logout(self) -> None:
        """Authenticate requests by their headers again."""
        self.force_login(None)

    def answer(self, *answers: Any, **by_key: Any) -> None:
        """Set the answers to the server's questions; call it before the call that asks.

        Args:
            answers: in the order of the questions, over all following calls; or a function of the
                question's key and the question, for all questions without another answer. A form's
                answer is its fields, `True`, `False` or None for accept, decline and cancel; the
                model's is a text; the roots' are a list of URIs.
            by_key: by the keys that handlers give their questions (`question-1`, ... if none),
                again in each call. Keys are sent at the newest revision only.
        """
        if answers and self._has_asked_since:
            self._report_leftover()
        self._has_asked_since = False
        for answer in answers:
            self._answerer.add(answer if callable(answer) else [answer])
        self._answerer.add(by_key)

    def _keep(self, result: ClientCallResult) -> ClientCallResult:
        """Return a result, at which the test has to look if it is an error."""
        if vars(result)["raw"].get("isError"):
            self._failed.append(result)
        return result

    def report_unnoticed(self) -> None:
        """Warn with `UnnoticedError` of failed calls at which the test has not looked, and of answers that nothing asked for.

        `MCPTestCase` and the fixtures do it at the end of a test.
        """
        failed = list(self._failed)
        self._failed.clear()
        for result in failed:
            told = result._describe_unread()
            if told is not None:
                warnings.warn(told, UnnoticedError, stacklevel=2)
        self._report_leftover()

    def _report_leftover(self) -> None:
        left, self._answerer.queue = self._answerer.queue, deque()
        if left:
            shown = ", ".join(f"{each!r:.60}" for each in left)
            warnings.warn(
                f"Nothing asked for the last {len(left)} of the answers that the test gave: {shown}. Does the tool ask "
                "what the test means?",
                UnnoticedError,
                stacklevel=3,
            )

    async def _request(self, method: str, params: JSONObject) -> JSONObject:
        """Return the result of a request, after all its rounds of questions."""
        self._has_asked_since = True
        await self._settle()
        self.progress, self.logs, self.questions, self.notifications = [], [], [], []

        async def note(params: JSONObject, asked: JSONObject) -> None:
            if self._reruns:
                again = await self._send_once(method, {**params, "inputResponses": {}})
                if not is_question(again):
                    raise AssertionError(
                        f"Asked {list(asked)}, {method} went on when it was sent again without an "
                        "answer."
                    )
                if again.get("inputRequests", {}) != asked:
                    raise AssertionError(
                        f"{method} asked {asked} and, run again, {again.get('inputRequests', {})}: "
                        "what stands before a question has to come out the same in each round."
                    )
            self._note_questions(asked)

        return await self._answerer.finish(method, params, self._send_once, note)

    def _note_questions(self, asked: JSONObject) -> None:
        self.questions += [
            Question(key=key, method=each["method"], params=each.get("params", {}))
            for key, each in asked.items()
        ]

    async def _settle(self) -> None:
        """Do the handshake once, if the revision has one."""
        if self._is_settled:
            return
        params = {
            "protocolVersion": self._revision.name,
            "capabilities": self._capabilities,
            "clientInfo": CLIENT_INFO,
        }
        self._greeting = await self._send_once("initialize", params)
        version = self._greeting["protocolVersion"]
        if version != self._revision.name:
            raise MCPError(f"The server does not speak {self._revision.name}, but {version}.")
        self._is_settled = True
        if self.response is not None:
            self._session_id = self.response.headers.get(names.SESSION_ID)
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        if self._session_id is not None and "logging" in self._greeting["capabilities"]:
            await self._send_once("logging/setLevel", {"level": LISTENS_TO})

    async def _send_once(self, method: str, params: JSONObject) -> JSONObject:
        message = self._make_request(method, params)
        response = await self._post(message)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        for answer in reversed(response.messages):
            if "error" in answer:
                error = to_error(method, answer["error"], response.status)
                break
            if answer.get("id") == message["id"] and "result" in answer:
                result: JSONObject = answer["result"]
                self._results.append((method, result))
                return result
        else:
            error = MCPError(
                f"{method} got no answer, HTTP {response.status}", status=response.status
            )
        note = explain_unknown(self.server.registry, error, params, response.caller, _LOG_IN)
        if note is None and response.status == 401 and self._principal is None:
            note = _LOG_IN
        if note is not None:
            error.add_note(note)
        raise error

    def _make_request(self, method: str, params: JSONObject) -> JSONObject:
        return write_request(
            method,
            params,
            self._revision,
            capabilities=self._capabilities,
            client_info=CLIENT_INFO,
            log_level=LISTENS_TO,
            has_progress=method != "initialize",
        )

    async def _post(self, message: JSONObject) -> ReceivedResponse:
        response = await self._exchange(message, ClientSide(self._receive))
        if "method" in message:
            self.response = response
        return response

    async def _exchange(self, message: JSONObject | None, side: ClientSide) -> ReceivedResponse:
        """Post a message, or open the stream of the session without one."""
        own = {
            "Host": "testserver",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if self._is_settled:
            own[names.PROTOCOL_VERSION] = self.revision
        if self._session_id is not None:
            own[names.SESSION_ID] = self._session_id
        if message is not None:
            side.body = encode_request(message, "use force_login(user)")
            if "method" in message and self._revision.mirrors_headers:
                own |= self._mirror(message["method"], message.get("params", {}))
        given = {name.lower() for name in self.headers}
        headers = {k: v for k, v in own.items() if k.lower() not in given} | self.headers
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "GET" if message is None else "POST",
            "scheme": "https" if settings.SECURE_SSL_REDIRECT else "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in headers.items()
            ],
            "client": ("127.0.0.1", 40000),
            "server": ("testserver", 80),
            "url_route": {"args": (), "kwargs": dict(self._url_kwargs)},
        }
        target: Any = ObservedServer(self.server, self._principal)
        await MCPConsumer(server=target)(scope, side.receive, side.send)
        return await side.finish(target.caller)

    def _mirror(self, method: str, params: JSONObject) -> dict[str, str]:
        """Return the headers that repeat a message."""
        headers = {names.METHOD: method}
        added = self.server.engine.derived.added_rules
        rule = self._revision.methods.get(method) or added.get((self.revision, method))
        mirrored = params.get(rule.mirrored_param) if rule and rule.mirrored_param else None
        if isinstance(mirrored, str):
            headers[names.NAME] = encode_value(mirrored)
        tools = self.server.registry.tools if method == "tools/call" else {}
        tool = tools.get(params.get("name", ""))
        for param in () if tool is None else tool.header_params:
            value = find_argument(param.path, params.get("arguments"))
            if isinstance(value, str | int | bool):
                headers[param.header] = encode_value(value)
        return headers

    async def _receive(self, message: JSONObject) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method is None:
            return
        if "id" in message:
            await self._answer_request(message["id"], method, params)
            return
        self.notifications.append(message)
        if method == "notifications/progress":
            self.progress.append(convert(params, Progress))
        elif method == "notifications/message":
            self.logs.append(convert(params, LogMessage))

    async def _answer_request(self, id_: Any, method: str, params: JSONObject) -> None:
        """Answer a request of the server, at a revision with sessions."""
        if method == "ping":
            await self._post({"jsonrpc": "2.0", "id": id_, "result": {}})
            return
        # Its key is not sent, but follows from its position.
        key = f"question-{len(self.questions) + 1}"
        asked = {key: {"method": method, "params": params}}
        self._note_questions(asked)
        reply: JSONObject = {"jsonrpc": "2.0", "id": id_}
        try:
            reply["result"] = (await self._answerer.answer_all(asked))[key]
        except (Unanswered, TypeError) as error:
            if isinstance(error, Unanswered) and self._answerer.by_key:
                error.add_note(
                    f"At {self.revision} a question is sent without its key. The keys are "
                    "question-1, question-2 and so on; or give the answers in order."
                )
            # An exception here would be raised in the server: the test gets it after the call.
            self._failure = self._failure or error
            reply["error"] = {"code": INTERNAL_ERROR, "message": "The test has no answer to this"}
        await self._post(reply)
