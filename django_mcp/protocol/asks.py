"""Questions to the client: what can be asked, and what it must have declared for each.

A question is the same in every revision; how it travels is not, and is no business of this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.sampling import SamplingMessage, SamplingOptions, sampling_params
from django_mcp.protocol.sampling_pairs import check_sampling

__all__ = [
    "Ask",
    "FormError",
    "ask_form",
    "ask_roots",
    "ask_sampling",
    "ask_sampling_raw",
    "ask_url",
    "holds_link",
]

_LINK = re.compile(r"https?://", re.IGNORECASE)
_PRIMITIVES = ("string", "number", "integer", "boolean")
_SHOWN = ("title", "description", "default")
_REQUEST_ID = re.compile(r"(?!ask-|ping-)[!-~]{1,64}")
"""Ids that are the site's to choose: the others are made by this package."""

_LOOPBACK = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d*)?([/?#].*)?", re.DOTALL)


class FormError(ValueError):
    """A schema that no form can be made of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One question, ready to be sent.

    Attributes:
        method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
        params: in the newest form; None when it has none.
        capability: what the client must have declared, such as `{"elicitation": {"form": {}}}`.
        form: what the user fills in, as it was given. Where that is a class, `params` lack its
            schema until the server has made it.
        elicitation_id: names a visit to a page, where the revision has names for them; None: any.
        request_id: of the request that asks, where the revision asks by one; None: any.
        is_raw: the answer is for the handler as the client sent it.
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
        """How `Revision.asks` names it: form, form.arrays, url, sampling, sampling.tools or roots."""
        (name,) = self.capability
        inner = next(iter(self.capability[name]), None)
        if name != "elicitation":
            return name if inner is None else f"{name}.{inner}"
        if inner == "form" and self.params is not None:
            fields = self.params["requestedSchema"]["properties"].values()
            return "form.arrays" if any(each.get("type") == "array" for each in fields) else "form"
        return inner or "form"

    def to_wire(self) -> JSONObject:
        """Return the question as it stands in `inputRequests`: without an id."""
        if self.params is None:
            return {"method": self.method}
        return {"method": self.method, "params": self.params}


def ask_form(message: str, schema: Any) -> Ask:
    """Return the question to fill a form in.

    Args:
        message: what is asked and why, for the user.
        schema: a flat JSON Schema of strings, numbers, booleans and choices, or a class with such
            fields.

    Raises:
        ValueError: the schema is not of that kind (2025-11-25 client/elicitation "Requested
            Schema").
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
    """Return the question to visit a page, for what must not pass through the client.

    Raises:
        ValueError: the URL is neither https nor of this machine, or holds credentials.
    """
    if not url.startswith("https://") and not _LOOPBACK.fullmatch(url):
        raise ValueError(f"{url!r:.100} is no https URL: users are not sent anywhere else.")
    if "@" in url.split("//", 1)[1].split("/", 1)[0]:
        raise ValueError("The URL holds credentials: users are sent nowhere with those.")
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
    """Return the question to the client's model, whose answer is a `SamplingResult`.

    Args:
        messages: a text of the user's, or messages, oldest first.
        max_tokens: the most that the model may write.
        request_id: of the request that asks, by which it can be cancelled; unlike any other in the
            session, 64 visible ASCII characters at most, and not beginning with `ask-` or `ping-`.
        options: see `SamplingOptions`.

    Raises:
        TypeError, ValueError: an argument cannot be what it is, or the use of a tool and its result
            do not make a pair; the text says what would be right.
    """
    params = sampling_params(messages, max_tokens, options)
    return _ask_model(params, request_id, is_raw=False)


def ask_sampling_raw(params: Mapping[str, Any], *, request_id: str | None = None) -> Ask:
    """Return the question to the client's model whose params and answer are in the protocol's form.

    Args:
        params: of `sampling/createMessage`.
        request_id: see `ask_sampling`.

    Raises:
        ValueError: `request_id` cannot be one, or the use of a tool and its result do not make a pair.
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
        # Several blocks in one message came with tools.
        or any(isinstance(each.get("content"), list) for each in messages)
    )
    return Ask(
        method="sampling/createMessage",
        params=params,
        capability={"sampling": {"tools": {}} if uses_tools else {}},
        request_id=request_id,
        is_raw=is_raw,
    )


def ask_roots() -> Ask:
    """Return the question for the client's roots."""
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


def holds_link(ask: Ask) -> bool:
    """Return whether a form shows its user an address, which they could be led astray by.

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
    return (
        field.get("type") == "array"
        and isinstance(items, Mapping)
        and ("enum" in items or "anyOf" in items)
    )
