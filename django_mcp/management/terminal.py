"""A terminal: safe texts, content blocks, a progress bar, and answers of a person to questions."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from django_mcp.protocol.json import JSONObject, encode

BAR_CHARS = 30


def printable(text: str) -> str:
    """Return a text without control characters that could affect a terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)


def to_text(block: JSONObject) -> str:
    """Return a block's text, or a description of it."""
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "resource_link":
            return f"[{block.get('name', '')}: {block.get('uri', '')}]"
        case "resource":
            inner = block["resource"]
            if "text" in inner:
                return str(inner["text"])
            block = {"type": "resource", "data": inner.get("blob", ""), **inner}
    encoded = block.get("data", "")
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    return f"[{block.get('type')}, {block.get('mimeType', 'unknown type')}, {size} bytes]"


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """Shows progress in one line of a stream, if it is a terminal, and removes it at the end."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.is_shown = bool(getattr(stream, "isatty", bool)())
        self._has_written = False

    def __exit__(self, *_error: object) -> None:
        if self._has_written:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, progress: float, total: float | None, message: str | None) -> None:
        line = render(progress, total, message)
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{line[:width]}")
        self._stream.flush()
        self._has_written = True


def render(progress: float, total: float | None, message: str | None) -> str:
    """Return a line for a state of progress."""
    text = "".join(char if char.isprintable() else " " for char in message or "")
    if not total or total <= 0:
        return f"{progress:g} {text}".rstrip()
    share = min(max(progress / total, 0), 1)
    done = round(share * BAR_CHARS)
    bar = "#" * done + "." * (BAR_CHARS - done)
    return f"[{bar}] {share:4.0%} {text}".rstrip()


CANCEL, DECLINE = ":cancel", ":decline"

_YES_OR_NO = {
    **dict.fromkeys(("y", "yes", "true", "1"), True),
    **dict.fromkeys(("n", "no", "false", "0"), False),
}


class NotAnswered(Exception):
    """The user does not answer; the text is what they did instead."""


class Interrupted(Exception):
    """The user cancelled the command."""


class Terminal:
    """Asks a person at a terminal, who answers with lines; the end of input cancels.

    Questions go to `stderr`, so that the output holds only the result.
    """

    def __init__(self, stdin: Any, stderr: Any) -> None:
        self._stdin = stdin
        self._stderr = stderr
        self._asked: set[str] = set()

    def __call__(self, key: str, question: JSONObject) -> Any:
        """Return the answer to a question, for `Answerer`."""
        params = question.get("params", {})
        if self._stderr.isatty():
            # There may be a progress bar.
            self._stderr.write("\r\x1b[K")
        if key in self._asked:
            self._say("That does not fit. Once more:")
        self._asked.add(key)
        match question.get("method"):
            case "roots/list":
                return [Path.cwd().as_uri()]
            case "sampling/createMessage":
                return self._write_as_model(params)
        self._say(str(params.get("message", "")))
        try:
            if params.get("mode") == "url":
                self._say(f"Open {params.get('url')}")
                return self._confirm("Agreed?")
            return self._fill_in(params.get("requestedSchema", {}))
        except NotAnswered as refused:
            return str(refused)

    def _fill_in(self, schema: JSONObject) -> Any:
        fields: JSONObject = schema.get("properties", {})
        if not fields:
            return self._confirm("Accept?")
        self._say(f"({DECLINE} and {CANCEL} do that; an empty line leaves a field out)")
        required = schema.get("required", [])
        filled = {}
        for name, field in fields.items():
            value = self._ask_field(name, field, is_required=name in required)
            if value is not None:
                filled[name] = value
        return filled

    def _ask_field(self, name: str, field: JSONObject, *, is_required: bool) -> Any:
        choices = _choices_of(field)
        self._describe(name, field, choices, is_required=is_required)
        while True:
            line = self._read(f"{name}: ")
            if not line:
                if "default" in field:
                    return field["default"]
                if not is_required:
                    return None
                self._say("This one is needed.")
                continue
            try:
                return _parse(line, field, choices)
            except ValueError as error:
                self._say(str(error))

    def _describe(
        self, name: str, field: JSONObject, choices: list[tuple[str, str]], *, is_required: bool
    ) -> None:
        title = field.get("title") or name
        notes = [str(field["description"])] if field.get("description") else []
        if field.get("type") == "boolean":
            notes.append("y or n")
        if "default" in field:
            notes.append(f"default: {_show_default(field['default'])}")
        elif not is_required:
            notes.append("optional")
        self._say(f"{title} ({'; '.join(notes)})" if notes else str(title))
        for number, (value, label) in enumerate(choices, 1):
            self._say(f"  {number}) {label}" + ("" if label == value else f" ({value})"))

    def _confirm(self, text: str) -> bool:
        while True:
            line = self._read(f"{text} [y/n] ").lower()
            if line in _YES_OR_NO:
                return _YES_OR_NO[line]

    def _write_as_model(self, params: JSONObject) -> str:
        self._say("Messages to the model:")
        for message in params.get("messages", []):
            content = message.get("content", {})
            blocks = content if isinstance(content, list) else [content]
            for block in blocks:
                self._say(f"  {message.get('role')}: {block.get('text', block.get('type'))}")
        try:
            return self._read("Its answer: ")
        except NotAnswered:
            return ""

    def _say(self, text: str) -> None:
        self._stderr.write(f"{printable(text)}\n")
        self._stderr.flush()

    def _read(self, prompt: str) -> str:
        self._stderr.write(prompt)
        self._stderr.flush()
        try:
            line = self._stdin.readline()
        except KeyboardInterrupt as error:
            # On an event loop, KeyboardInterrupt would end the loop; this is an ordinary error.
            raise Interrupted from error
        if not line:
            self._stderr.write("\n")
            raise NotAnswered("cancel")
        text = str(line).strip()
        if text in (CANCEL, DECLINE):
            raise NotAnswered(text[1:])
        return text


def _choices_of(field: JSONObject) -> list[tuple[str, str]]:
    """Return the values of a choice, with their labels; empty if it is not a choice."""
    holder: JSONObject = field.get("items", field) if field.get("type") == "array" else field
    if "enum" in holder:
        labels = holder.get("enumNames") or holder["enum"]
        return list(zip(holder["enum"], map(str, labels), strict=False))
    options = holder.get("oneOf") or holder.get("anyOf") or []
    return [(option["const"], str(option.get("title", option["const"]))) for option in options]


def _show_default(value: Any) -> str:
    """Return a default for a person to read: a text is quoted if its ends would not be visible."""
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return value if value and value == value.strip() else encode(value).decode()
        case list():
            return ", ".join(map(str, value)) or "none"
    return str(value)


def _parse(line: str, field: JSONObject, choices: list[tuple[str, str]]) -> Any:
    kind = field.get("type")
    if kind == "array":
        return [_choose(part.strip(), choices) for part in line.split(",") if part.strip()]
    if choices:
        return _choose(line, choices)
    if kind == "boolean":
        if line.lower() not in _YES_OR_NO:
            raise ValueError("Write y or n.")
        return _YES_OR_NO[line.lower()]
    try:
        if kind == "integer":
            return int(line)
        if kind == "number":
            return float(line)
    except ValueError:
        raise ValueError(f"Write a {'whole ' if kind == 'integer' else ''}number.") from None
    return line


def _choose(text: str, choices: list[tuple[str, str]]) -> str:
    values = [value for value, _ in choices]
    if text in values:
        return text
    for value, label in choices:
        if label.casefold() == text.casefold():
            return value
    if text.isdecimal() and 1 <= int(text) <= len(values):
        return values[int(text) - 1]
    raise ValueError(f"Choose one of {', '.join(values)}.")
