"""Requests to the client (forms, visits, sampling, roots), and the capabilities they need.

A request is the same in every revision; other modules decide how it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Unpack

from django_mcp.protocol.json import JSONObject, present
from django_mcp.protocol.sampling import SamplingMessage, SamplingOptions, sampling_params

_LINK = re.compile(r"https?://", re.IGNORECASE)
_PRIMITIVES = ("string", "number", "integer", "boolean")
_SHOWN = ("title", "description", "default")
_REQUEST_ID = re.compile(r"(?!ask-|ping-)[!-~]{1,64}")
"""Ids that a site may choose; this package makes the others."""

_LOOPBACK = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d*)?([/?#].*)?", re.DOTALL)


class SamplingError(ValueError):
    """Messages that models reject."""


class FormError(ValueError):
    """No form can be made from a schema."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One request to the client, ready to be sent.

    Attributes:
        method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
        params: in the newest form, or None.
        capability: what the client must have declared, such as `{"elicitation": {"form": {}}}`.
        form: the schema or class of a form, as given. If it is a class, `params` lack the schema
            until the server has made it.
        elicitation_id: the id of a visit to a page, if the revision has one; None: any.
        request_id: the id of the request, if the revision sends one; None: any.
        is_raw: the handler gets the answer as the client sent it.
    """

    method: str
    params: JSONObject | None
    capability: Mapping[str, Any]
    form: Any = None
    elicitation_id: str | None = None
    request_id: str | None = None
    is_raw: bool = False

    @property
    def kind(self) -> str:
        """Its name in `Revision.asks`: form, form.arrays, url, sampling, sampling.tools or roots."""
        (name,) = self.capability
        inner = next(iter(self.capability[name]), None)
        if name != "elicitation":
            return name if inner is None else f"{name}.{inner}"
        if inner == "form" and self.params is not None:
            fields = self.params["requestedSchema"]["properties"].values()
            return (
                "form.arrays" if any(field.get("type") == "array" for field in fields) else "form"
            )
        return inner or "form"

    def to_wire(self) -> JSONObject:
        """Return the request in the form of `inputRequests`, which has no id."""
        return present(method=self.method, params=self.params)


@dataclass(frozen=True, slots=True)
class InputRequired:
    """Return from a handler to ask, and read the answers from `ctx.input_responses` next time.

    For handlers that control the rounds themselves; `ctx.elicit` and the like do not need it.

    Args:
        asks: the questions by key; made with `ask_form`, `ask_url`, `ask_sampling`, `ask_roots`.
        state: any JSON value, returned as `ctx.request_state`; signed on its way.
    """

    asks: Mapping[str, Ask]
    state: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.asks, Mapping):
            raise TypeError(
                "InputRequired takes a dict of questions by their keys, such as {'day': ask_form(...)}"
            )
        if not self.asks and self.state is None:
            raise ValueError("InputRequired needs questions, a state, or both")


def ask_form(message: str, schema: Any) -> Ask:
    """Return the request to fill in a form.

    Args:
        message: the question and its reason, for the user.
        schema: a flat JSON Schema of strings, numbers, booleans and choices, or a class with such
            fields.

    Raises:
        ValueError: the schema is of another kind (2025-11-25 client/elicitation "Requested Schema").
    """
    params: JSONObject = {"mode": "form", "message": str(message)}
    if isinstance(schema, Mapping):
        check_form(schema)
        params["requestedSchema"] = {"properties": {}, **schema}
    return Ask(
        method="elicitation/create",
        params=params,
        capability={"elicitation": {"form": {}}},
        form=schema,
    )


def ask_url(message: str, url: str) -> Ask:
    """Return the request to visit a page, for data that must not pass through the client.

    Raises:
        ValueError: the URL is neither https nor local, or holds credentials.
    """
    if not url.startswith("https://") and not _LOOPBACK.fullmatch(url):
        raise ValueError(f"{url!r:.100} is not an https URL, and users are sent to no others.")
    if "@" in url.split("//", 1)[1].split("/", 1)[0]:
        raise ValueError("The URL holds credentials, which users must not be sent to.")
    return Ask(
        method="elicitation/create",
        params={"mode": "url", "message": str(message), "url": url},
        capability={"elicitation": {"url": {}}},
    )


def ask_sampling(
    messages: str | Sequence[SamplingMessage],
    *,
    max_tokens: int,
    request_id: str | None = None,
    **options: Unpack[SamplingOptions],
) -> Ask:
    """Return the request to the client's model, whose answer is a `SamplingResult`.

    Args:
        messages: a text of the user's, or messages, oldest first.
        max_tokens: the maximum length of the answer.
        request_id: the id of the request, by which it can be cancelled; unique in the session, at
            most 64 visible ASCII characters, and not starting with `ask-` or `ping-`.
        options: see `SamplingOptions`.

    Raises:
        TypeError, ValueError: an argument is not valid, or a tool use and its result are not
            paired; the text says what would be right.
    """
    params = sampling_params(messages, max_tokens, options)
    return _ask_model(params, request_id, is_raw=False)


def ask_sampling_raw(params: Mapping[str, Any], *, request_id: str | None = None) -> Ask:
    """Return the request to the client's model with params and answer in the protocol's form.

    Args:
        params: of `sampling/createMessage`.
        request_id: see `ask_sampling`.

    Raises:
        ValueError: `request_id` is not valid, or a tool use and its result are not paired.
    """
    return _ask_model({"messages": [], **params}, request_id, is_raw=True)


def _ask_model(params: JSONObject, request_id: str | None, *, is_raw: bool) -> Ask:
    if request_id is not None and _REQUEST_ID.fullmatch(request_id) is None:
        raise ValueError(f"{request_id!r:.100} cannot be the id of a request to a client.")
    messages = params["messages"]
    check_sampling(messages)
    uses_tools = (
        "tools" in params
        or "toolChoice" in params
        # Messages with several blocks were introduced together with tools.
        or any(isinstance(message.get("content"), list) for message in messages)
    )
    return Ask(
        method="sampling/createMessage",
        params=params,
        capability={"sampling": {"tools": {}} if uses_tools else {}},
        request_id=request_id,
        is_raw=is_raw,
    )


def check_sampling(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raise `SamplingError` unless the results of each message's tool uses follow in the next message.

    That message is the user's and contains only results, one for each use.

    Args:
        messages: `{"role": "user" | "assistant", "content": block or blocks}`, oldest first.

    Source: 2025-11-25 client/sampling "Tool Result Messages", "Tool Use and Result Balance".
    """
    due: list[Any] = []
    for place, message in enumerate(messages):
        content = message.get("content")
        listed = content if isinstance(content, list | tuple) else [content]
        blocks = [block for block in listed if isinstance(block, Mapping)]
        tool_use_ids = [
            block.get("toolUseId") for block in blocks if block.get("type") == "tool_result"
        ]
        where = f"messages[{place}]"
        if tool_use_ids and (len(tool_use_ids) < len(blocks) or message.get("role") != "user"):
            raise SamplingError(
                f"{where}: results of tools stand in a message of the user's, alone."
            )
        if sorted(map(repr, tool_use_ids)) != sorted(map(repr, due)):
            raise SamplingError(
                f"{where}: holds the results of {tool_use_ids}, and the message before it uses tools as "
                f"{due}: each use is answered once, in the next message."
            )
        due = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
        if due and message.get("role") != "assistant":
            raise SamplingError(f"{where}: only the assistant uses tools.")
    if due:
        raise SamplingError(f"The uses {due} of tools in the last message have no results.")


def ask_roots() -> Ask:
    """Return the request for the client's roots."""
    return Ask(method="roots/list", params=None, capability={"roots": {}})


def check_form(schema: Any) -> None:
    """Raise `FormError` unless a schema is a flat object of primitive properties."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise FormError('The schema of a form has "type": "object" at its root.')
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise FormError("The properties of a form are an object.")
    for name, field in properties.items():
        if not _is_field(field):
            raise FormError(
                f"The field {name!r} cannot be asked for: use a string, number, integer, boolean, "
                f"a choice of strings, or an array of such a choice."
            )
        if _is_secret(name, field):
            raise FormError(
                f"The field {name!r} is secret: have the user visit a page (elicit_url)."
            )


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_NAME = re.compile(
    r"(?:.*_)?(?:password|passwd|passphrase|passcode|apikey|cvc|cvv|credit_card_number"
    r"|(?:access|api|private|secret)_key|(?:access|api|auth|bearer|refresh)_token"
    r"|(?:api|app|client|shared|webhook)_secret)(?:_[0-9]+)?"
)


def _is_secret(name: str, field: Mapping[str, Any]) -> bool:
    """Return whether a field asks for a text that must not pass through the client.

    Source: 2025-11-25 client/elicitation, "Safe URL Handling" and "Security Considerations".
    """
    if field.get("type") != "string" or "enum" in field or "oneOf" in field:
        return False
    return field.get("format") == "password" or _is_secret_name(str(name))


@lru_cache(maxsize=1024)
def _is_secret_name(name: str) -> bool:
    words = "_".join(word.lower() for word in _WORD.findall(name))
    return _SECRET_NAME.fullmatch(words) is not None


def holds_link(ask: Ask) -> bool:
    """Return whether a form contains a URL, which could mislead its user.

    Source: 2025-11-25 client/elicitation "Safe URL Handling": no field of a form does.
    """
    params = ask.params or {}
    fields = params.get("requestedSchema", {}).get("properties", {}).values()
    texts = [params.get("message"), *(field.get(key) for field in fields for key in _SHOWN)]
    return any(isinstance(text, str) and _LINK.search(text) is not None for text in texts)


def _is_field(field: Any) -> bool:
    if not isinstance(field, Mapping):
        return False
    if field.get("type") in _PRIMITIVES:
        return not {"properties", "items", "anyOf", "allOf", "$ref"} & set(field)
    items = field.get("items")
    is_choice = isinstance(items, Mapping) and ("enum" in items or "anyOf" in items)
    return field.get("type") == "array" and is_choice
