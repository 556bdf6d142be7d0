"""Questions to the user of a client that cannot be asked: their fields in an error, their answers in an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django_mcp.protocol.asks import Ask
from django_mcp.protocol.json import JSONObject, encode, to_pointer
from django_mcp.registry.entries import ANSWERS, ToolEntry
from django_mcp.registry.problems import ArgumentErrors, Problem
from django_mcp.server.exchange.call import Call

MAX_FIELDS = 30
"""An error names so many fields of a question at most."""

MAX_OPTIONS = 20
"""An error names so many choices of a field at most."""


def takes_answers(call: Call) -> bool:
    """Return whether answers may be an argument of a call."""
    return isinstance(call.entry, ToolEntry) and call.entry.asks_by_argument


def read_answers(value: Any) -> JSONObject:
    """Return the value of the argument; raises `ArgumentErrors` if it is no object, which tools may leave unchecked."""
    if not isinstance(value, dict):
        raise ArgumentErrors([Problem(to_pointer([ANSWERS]), "must be an object")])
    return value


def take_answer(call: Call, key: str, ask: Ask) -> None:
    """Answer a question by the argument of the call, if that has its answer.

    The argument has objects by the keys of their questions. Values beside them are the fields of the first question.

    Raises:
        ArgumentErrors: an answer is no object, or has what is no field of the question.
    """
    answers = call.answers
    if answers.given is None or ask.method != "elicitation/create" or ask.form is None:
        return
    path = [ANSWERS]
    if key in answers.given:
        path, content = [ANSWERS, key], answers.given[key]
        if not isinstance(content, dict):
            raise ArgumentErrors([Problem(to_pointer(path), "must be an object")])
        answers.taken[key] = key
    else:
        content = {name: value for name, value in answers.given.items() if type(value) is not dict}
        if not content or answers.taken.keys() & content.keys():
            return
        answers.taken.update(dict.fromkeys(content, key))
    fields = _fields_of(ask)
    unknown = [name for name in content if name not in fields]
    if unknown:
        told = f"is no field of the question, which has {', '.join(fields) or 'none'}"
        raise ArgumentErrors(Problem(to_pointer([*path, name]), told) for name in unknown)
    answers.known[key] = {"action": "accept", "content": content}


def refuse_unfit(call: Call, key: str, problems: Iterable[Problem]) -> None:
    """Raise `ArgumentErrors` if an answer that does not fit its question was an argument of the call."""
    answers = call.answers
    if key in answers.taken.values():
        path = to_pointer([ANSWERS, key] if key in answers.taken else [ANSWERS])
        raise ArgumentErrors([Problem(f"{path}{each.pointer}", each.message) for each in problems])


def find_unasked(call: Call) -> list[Problem]:
    """Return what is wrong with answers to questions that the handler did not ask."""
    given = call.answers.given or {}
    return [
        Problem(to_pointer([ANSWERS, name]), "answers no question of this call")
        for name in given
        if name not in call.answers.taken
    ]


def explain(call: Call, asks: Mapping[str, Ask]) -> str:
    """Return what to ask the user for, and how the answers are sent if the tool takes them; "" without forms."""
    forms = {
        key: ask
        for key, ask in asks.items()
        if ask.method == "elicitation/create" and ask.form is not None
    }
    if len(forms) < len(asks):
        return ""
    lines = [_describe(ask) for ask in forms.values()]
    if takes_answers(call):
        answers = dict(call.answers.given or {})
        for key, ask in forms.items():
            fields = dict.fromkeys(_fields_of(ask), "...")
            is_alone = len(forms) == 1 and not answers and fields
            answers.update(fields if is_alone else {key: fields})
        told = encode(answers).decode()
        lines.append(f"Then make the same call with the argument {ANSWERS}: {told}")
    return "\n".join(lines)


def _fields_of(ask: Ask) -> JSONObject:
    fields: JSONObject = (ask.params or {}).get("requestedSchema", {}).get("properties", {})
    return fields


def _describe(ask: Ask) -> str:
    params = ask.params or {}
    required = params.get("requestedSchema", {}).get("required", ())
    fields = [
        f"{name} ({_describe_type(field)}{'' if name in required else ', optional'})"
        for name, field in list(_fields_of(ask).items())[:MAX_FIELDS]
    ]
    what = f"for {', '.join(fields)}" if fields else "whether they agree"
    return f"Ask the user {what}: {params.get('message', '')}"


def _describe_type(field: Mapping[str, Any]) -> str:
    if field.get("type") == "array":
        return f"a list of {_describe_type(field.get('items', {}))}"
    options = list(_options_of(field))
    if options:
        more = ["..."] if len(options) > MAX_OPTIONS else []
        return f"one of {', '.join([*map(str, options[:MAX_OPTIONS]), *more])}"
    if field.get("type") == "boolean":
        return "true or false"
    return str(field.get("format") or field.get("type", "string"))


def _options_of(field: Mapping[str, Any]) -> Iterator[Any]:
    yield from field.get("enum", ())
    for keyword in ("oneOf", "anyOf"):
        for option in field.get(keyword, ()):
            if isinstance(option, Mapping) and "const" in option:
                yield option["const"]
