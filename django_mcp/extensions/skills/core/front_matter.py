"""Front matter of `SKILL.md`: the part of YAML that every reader of YAML understands alike.

Hosts read the front matter themselves, and compare it with what the server said of it. YAML 1.1 and 1.2 differ:
`yes`, `1.10`, `2026-01-01` and `012` are other values in one than in the other. This reader takes texts, whole
numbers, `true` and `false`, and lists and mappings of them, and refuses the rest with the remedy, which is mostly
a pair of quotes. It has neither anchors nor tags, so a small file stays small.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django_mcp.protocol.json import JSONDecodeError, JSONObject, decode, encode

MAX_FRONT_MATTER_BYTES = 16 * 1024
"""Every entry of a list of skills has all of it."""

MAX_DEPTH = 6

FENCE = "---"

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""What YAML does not allow, or what one of its versions takes for the end of a line. A tab is among them."""

_KEY = re.compile(r"""([A-Za-z_][A-Za-z0-9_./-]*|"[^"\\]*"|'[^']*')[ ]*:(?:[ ]+(.*))?""")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")
_LIKE_A_NUMBER = re.compile(
    r"[-+.]?[0-9][-+0-9.,:_eExXoObBa-fA-FtTzZ ]*|[-+]?\.(?:inf|nan)", re.IGNORECASE
)
_OTHER_WORDS = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "=", "<<")
)
"""What one version of YAML reads as no text, in any case of letters."""

_PLAIN_START = re.compile(r"""[^\s,\[\]{}#&*!|>'"%@`?:-]|[?:-][^\s]""")


class FrontMatterError(ValueError):
    """Front matter that cannot be read, with the line of the file where that shows."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


def read_front_matter(text: str) -> JSONObject:
    """Return the front matter that a text begins with.

    Raises:
        FrontMatterError: there is none, or it has what not every reader of YAML reads alike.
    """
    lines = text.split("\n")
    if lines[0] != FENCE:
        raise FrontMatterError(1, f"it does not begin with a line {FENCE}")
    size = 0
    for end, line in enumerate(lines[1:], 1):
        size += len(line.encode("utf-8", "surrogatepass")) + 1
        if line == FENCE:
            break
        if size > MAX_FRONT_MATTER_BYTES:
            raise FrontMatterError(end + 1, f"it has more than {MAX_FRONT_MATTER_BYTES} bytes")
    else:
        raise FrontMatterError(len(lines), f"there is no line {FENCE} at its end")
    reader = _Reader(lines[1:end])
    return reader.read()


def write_front_matter(fields: Mapping[str, Any]) -> str:
    """Return fields as front matter, with its fences; `read_front_matter` reads the same.

    Raises:
        ValueError, TypeError: a value has no form in it.
    """
    text = "\n".join((FENCE, *_write(fields, ""), FENCE, ""))
    if read_front_matter(text) != dict(fields):
        raise ValueError(f"{dict(fields)!r:.200} cannot be written as front matter")
    return text


def _write(fields: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in fields.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _write(value, f"{indent}  ")
        elif isinstance(value, list | tuple) and value:
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {_write_scalar(item)}" for item in value)
        else:
            yield f"{indent}{key}: {_write_scalar(value)}"


def _write_scalar(value: Any) -> str:
    if isinstance(value, str) and value and not _is_special(value):
        return value
    return encode(value).decode()


def _is_special(text: str) -> bool:
    """Return whether a text needs quotes."""
    return (
        text != text.strip()
        or _UNPRINTABLE.search(text) is not None
        or _PLAIN_START.match(text) is None
        or ": " in text
        or " #" in text
        or text.endswith(":")
        or text.casefold() in _OTHER_WORDS
        or _LIKE_A_NUMBER.fullmatch(text) is not None
        or text.startswith((FENCE, "..."))
    )


class _Reader:
    """Reads lines between the fences. A line is known by its number, where the first fence is line 1."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def read(self) -> JSONObject:
        for number, line in enumerate(self._lines):
            wrong = _UNPRINTABLE.search(line)
            if wrong is not None:
                what = {"\t": "a tab", "\r": "a carriage return"}.get(wrong[0], repr(wrong[0]))
                raise FrontMatterError(number + 2, f"it has {what}")
            if line and not line.strip(" "):
                raise FrontMatterError(number + 2, "it consists of spaces")
            if line.startswith("..."):
                raise FrontMatterError(number + 2, "... ends the front matter: leave it out")
        fields = self._read_mapping(0, 1)
        if self._peek() is not None:
            raise self._error("it is indented, and belongs to nothing")
        if not fields:
            raise self._error("there is nothing in it")
        return fields

    def _error(self, problem: str) -> FrontMatterError:
        return FrontMatterError(self._at + 2, problem)

    def _peek(self) -> int | None:
        """Move to the next line with something on it, and return its indentation; None: there is none."""
        while self._at < len(self._lines):
            content = self._lines[self._at].lstrip(" ")
            if content and not content.startswith("#"):
                return len(self._lines[self._at]) - len(content)
            self._at += 1
        return None

    def _read_mapping(self, indent: int, depth: int) -> JSONObject:
        if depth > MAX_DEPTH:
            raise self._error(f"it is more than {MAX_DEPTH} levels deep")
        fields: JSONObject = {}
        while self._peek() == indent:
            content = self._lines[self._at][indent:]
            match = _KEY.fullmatch(content)
            if match is None:
                raise self._error(
                    "it is no `key: value`; a key consists of letters, digits, _, - and ."
                )
            key = match[1].strip("\"'")
            if match[1] == key and key.casefold() in _OTHER_WORDS:
                raise self._error(f'write the key "{key}" in quotes')
            if not key or key in fields:
                raise self._error(f"the key {key!r} is there twice" if key else "the key is empty")
            fields[key] = self._read_value((match[2] or "").strip(" "), indent, depth)
        return fields

    def _read_value(self, given: str, indent: int, depth: int) -> Any:
        """Return the value of a key; the line of the key is the current one."""
        if given.startswith("#"):
            given = ""
        if given in ("|", "|-", ">", ">-"):
            return self._read_block(given, indent)
        if not given:
            return self._read_nested(indent, depth)
        if given[0] in "[{":
            value = self._read_flow(given)
        else:
            value = self._read_scalar(given, indent)
        self._at += 1
        return value

    def _read_nested(self, indent: int, depth: int) -> Any:
        at = self._at
        self._at += 1
        inner = self._peek()
        if inner is not None and inner >= indent and self._lines[self._at][inner:].startswith("- "):
            return self._read_list(inner)
        if inner is None or inner <= indent:
            self._at = at
            raise self._error('the key has no value: write "" for an empty text, or leave it out')
        return self._read_mapping(inner, depth + 1)

    def _read_list(self, indent: int) -> list[Any]:
        items = []
        while self._peek() == indent and self._lines[self._at][indent:].startswith("- "):
            item = self._lines[self._at][indent + 2 :].strip(" ")
            if not item or item.startswith("#"):
                raise self._error("the item is empty")
            items.append(self._read_scalar(item, indent))
            self._at += 1
        return items

    def _read_scalar(self, given: str, indent: int) -> Any:
        """Return a text, a number, or true or false. A text without quotes may go on in further lines."""
        if given[0] in "\"'":
            return self._read_quoted(given)
        if _PLAIN_START.match(given) is None:
            raise self._error(f"a text that begins with {given[0]} has to be in quotes")
        plain, is_commented = _cut_comment(given)
        parts = [plain]
        while not is_commented and self._goes_on(indent):
            self._at += 1
            part = self._lines[self._at].strip(" ")
            if part.startswith("#") or " #" in part:
                raise self._error("a comment inside of a text of several lines: use quotes or >-")
            parts.append(part)
        for part in parts:
            if ": " in part or part.endswith(":"):
                raise self._error(
                    "a text with a colon and a space has to be in quotes, or after >-"
                )
        text = " ".join(parts)
        if len(parts) == 1:
            return self._resolve(text)
        return text

    def _goes_on(self, indent: int) -> bool:
        """Return whether the next line belongs to the text of this one."""
        following = self._lines[self._at + 1 : self._at + 2]
        if not following or not following[0]:
            if any(
                line.startswith(" " * (indent + 1)) and not line.lstrip(" ").startswith("#")
                for line in self._lines[self._at + 1 : self._at + 3]
            ):
                raise self._error("an empty line inside of a text: use >- or |")
            return False
        return following[0].startswith(" " * (indent + 1))

    def _resolve(self, text: str) -> Any:
        if text in ("true", "false"):
            return text == "true"
        if _INTEGER.fullmatch(text):
            return int(text)
        if text.casefold() in _OTHER_WORDS or _LIKE_A_NUMBER.fullmatch(text):
            raise self._error(f'not every reader takes {text} for a text: write "{text}"')
        return text

    def _read_quoted(self, given: str) -> str:
        quote = given[0]
        body = r"(?:[^'])*(?:''[^']*)*" if quote == "'" else r'(?:[^"\\]|\\.)*'
        match = re.fullmatch(rf"({quote}{body}{quote})(?:\s+#.*)?", given)
        if match is None:
            raise self._error("the quotes do not end, or something follows them")
        if quote == "'":
            return match[1][1:-1].replace("''", "'")
        try:
            text = decode(match[1].encode())
        except JSONDecodeError:
            raise self._error('between " and ", \\ begins an escape, as in JSON') from None
        if not isinstance(text, str) or _has_surrogates(match[1]):
            raise self._error("write the character itself in place of \\ud800 to \\udfff")
        return text

    def _read_flow(self, given: str) -> Any:
        """Return a list or a mapping in one line: as JSON, or a list of words."""
        try:
            value = decode(given.encode())
        except JSONDecodeError:
            match = re.fullmatch(r"\[([^\[\]{}\"'#]*)\](?:\s+#.*)?", given)
            if match is None or not match[1].strip():
                raise self._error(
                    "write a list or a mapping in one line as JSON, or in lines of its own"
                ) from None
            return [self._read_word(word.strip(" ")) for word in match[1].split(",")]
        if _has_surrogates(given) or not _is_plain(value):
            raise self._error(
                "it has a number that is not whole, null, or an escaped surrogate: use quotes"
            )
        return value

    def _read_word(self, word: str) -> Any:
        if not word or _PLAIN_START.match(word) is None or ":" in word:
            raise self._error(f'write "{word}" in quotes')
        return self._resolve(word)

    def _read_block(self, style: str, indent: int) -> str:
        """Return a text of the lines below, after `|` as they are, after `>` joined by spaces."""
        self._at += 1
        first = self._at
        lines: list[str] = []
        inner = 0
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line:
                own = len(line) - len(line.lstrip(" "))
                if own <= indent:
                    break
                inner = inner or own
                if own < inner:
                    raise self._error("it is indented less than the first line of the text")
            lines.append(line[inner:] if line else "")
            self._at += 1
        while lines and not lines[-1]:
            lines.pop()
        if not lines:
            self._at = first - 1
            raise self._error("the text is empty")
        if not lines[0]:
            self._at = first
            raise self._error("the text begins with an empty line")
        end = "" if style.endswith("-") else "\n"
        if style.startswith("|"):
            return "\n".join(lines) + end
        if any(line.startswith(" ") for line in lines):
            self._at = first
            raise self._error("a line of the text after > is indented more than the others: use |")
        return _fold(lines) + end


def _fold(lines: list[str]) -> str:
    text, breaks = lines[0], 0
    for line in lines[1:]:
        if not line:
            breaks += 1
            continue
        text += ("\n" * breaks or " ") + line
        breaks = 0
    return text


def _cut_comment(given: str) -> tuple[str, bool]:
    plain, mark, _ = given.partition(" #")
    return plain.rstrip(" "), bool(mark)


def _has_surrogates(text: str) -> bool:
    return re.search(r"\\u[dD][89a-fA-F]", text) is not None


def _is_plain(value: Any) -> bool:
    """Return whether a value of JSON is read alike by every reader of YAML."""
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, str | bool) or (type(value) is int and abs(value) < 10**15)
