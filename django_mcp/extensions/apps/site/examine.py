"""What is wrong with a page: what a host does not load, does not send, or cannot read out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from urllib.parse import urlsplit

from django_mcp.extensions.apps.site.called import Call, read_arguments, read_call

MAX_PAGE_BYTES = 1024 * 1024
"""Larger pages are slow to open in any host."""

_LOADING = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "link": ("href",),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "track": ("src",),
    "input": ("src",),
    "source": ("src", "srcset"),
    "base": ("href",),
    "object": ("data",),
    "embed": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
"""The attributes by which elements load something."""

_LINKS = ("href", "xlink:href", "action", "formaction", "src")

REFERENCES = ("data-mcp-swap", "data-mcp-with", "data-mcp-clear", "data-mcp-text", "data-mcp-after")
"""The attributes by which elements refer to others, to values of results and to tools."""

_UNLABELLED = ("hidden", "submit", "button", "reset", "image")

_EMPTY = frozenset(
    "area base br col embed hr img input link meta param source track wbr".split()  # noqa: SIM905 - names
)
"""The elements that have no end tag."""

_OPEN = frozenset(
    "html head body p li dt dd option optgroup tr td th thead tbody tfoot colgroup caption rt rp".split()  # noqa: SIM905
)
"""The elements whose end tag may be left out."""

_IN_CSS = re.compile(
    r"""url\(\s*(?:"([^"]*)"|'([^']*)'|([^"')]*?))\s*\)|@import\s+(?:"([^"]*)"|'([^']*)')""",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SRCSET = re.compile(r"[\s,]*(\S*[^\s,])(?:\s[^,]*)?")
_QUOTED = re.compile(r"""(["'`])([A-Za-z0-9_.\-/]{1,128})\1""")
_BLANK = re.compile(r"[\x00-\x20]")


@dataclass
class Examined:
    """What a page, or a part of one, consists of.

    Attributes:
        loaded: the addresses outside of the page that it loads.
        problems: what hosts do not do, and what people cannot read, as sentences without a full stop.
        refused: those of `problems` that hosts do not do, which the source of a template shows as well.
        called: the tools that its elements call.
        calls: their calls.
        inputs: the names of its inputs, by id.
        script: its own scripts.
        quoted: the texts in quotation marks of these, which may be names of tools.
        references: the attributes by which elements refer to others, to tools and to values, with their values.
        ids: how many elements have each id.
        has_place: whether an element takes the part that the server renders.
    """

    loaded: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    script: str = ""
    quoted: set[str] = field(default_factory=set)
    references: list[tuple[str, str]] = field(default_factory=list)
    ids: Counter[str] = field(default_factory=Counter)
    has_place: bool = False


def examine(page: str, origins: Sequence[str] = (), *, is_part: bool = False) -> Examined:
    """Return what a page consists of.

    Args:
        page: HTML.
        origins: those that the app declares, from which it may load.
        is_part: it is a part of a page, which has neither a title nor a language.
    """
    parser = _PageParser(origins)
    parser.feed(page)
    parser.close()
    return parser.finish(page, is_part=is_part)


def find_duplicates(ids: Counter[str]) -> Iterator[str]:
    """Say of each id that more than one element has, what is wrong."""
    for id, count in ids.items():
        if count > 1:
            yield f"{count} elements have the id {id}"


class _PageParser(HTMLParser):
    def __init__(self, origins: Sequence[str]) -> None:
        super().__init__()
        self._origins = [origin.replace("://*.", "://.") for origin in origins]
        self._examined = Examined()
        self._has_language = self._has_title = False
        self._labelled: set[str] = set()
        self._inputs: list[tuple[str, str]] = []
        self._in_label = 0
        self._open: list[str] = []
        self._unclosed: list[str] = []
        self._texts: dict[str, list[str]] = {"style": [], "script": []}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._read_element(tag, {name: value or "" for name, value in attrs})
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._read_element(tag, {name: value or "" for name, value in attrs})
        # Only elements of SVG and MathML may end this way.
        if tag not in _EMPTY and not {"svg", "math"} & {*self._open, tag}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._in_label -= tag == "label" and self._in_label > 0
        if tag not in self._open:
            if tag not in _EMPTY:
                self._examined.problems.append(f"it has </{tag}> without <{tag}>")
            return
        while (last := self._open.pop()) != tag:
            self._unclosed.append(last)

    def handle_data(self, data: str) -> None:
        # The parser gives the text of a script in pieces.
        if self._open and self._open[-1] in self._texts:
            self._texts[self._open[-1]].append(data)

    def _read_element(self, tag: str, given: dict[str, str]) -> None:
        self._has_language |= tag == "html" and bool(given.get("lang"))
        self._has_title |= tag == "title" and "svg" not in self._open
        self._in_label += tag == "label"
        if tag == "label" and "for" in given:
            self._labelled.add(given["for"])
        if given.get("id"):
            self._examined.ids[given["id"]] += 1
        self._examined.has_place |= "data-mcp-result" in given
        self._note_loading(tag, given)
        self._note_acts(tag, given)
        self._examined.references += [(name, given[name]) for name in REFERENCES if name in given]
        if tag == "img" and "alt" not in given:
            self._examined.problems.append("an image has no alt text")
        if tag in ("input", "select", "textarea"):
            self._examined.inputs[given.get("id", "")] = given.get("name", "")
        if tag in ("input", "select", "textarea") and given.get("type") not in _UNLABELLED:
            is_named = self._in_label or given.get("aria-label") or given.get("aria-labelledby")
            if not is_named:
                self._inputs.append((given.get("id", ""), given.get("name", tag)))

    def _note_loading(self, tag: str, given: dict[str, str]) -> None:
        for name in _LOADING.get(tag, ()):
            value = given.get(name, "")
            for address in _SRCSET.findall(value) if name == "srcset" else (value.strip(),):
                self._note_loaded(address)
        self._note_css(given.get("style", ""))

    def _note_acts(self, tag: str, given: dict[str, str]) -> None:
        refused = self._examined.refused
        for attribute in ("data-mcp-call", "data-mcp-form"):
            if attribute in given:
                self._examined.called.add(given[attribute])
        if (call := read_call(given)) is not None:
            self._examined.calls.append(call)
        if ("action" in given and tag == "form") or "formaction" in given:
            refused.append("it has <form action>, which hosts do not send: use data-mcp-call")
        handlers = [name for name, value in given.items() if name.startswith("on") and value]
        if handlers:
            refused.append(
                f"<{tag} {handlers[0]}> is a handler in the markup: use addEventListener in a script"
            )
        for name in _LINKS:
            if _BLANK.sub("", given.get(name, "")).lower().startswith("javascript:"):
                refused.append(
                    f"<{tag} {name}> is a script, which is not run: use addEventListener in a script"
                )
        arguments = given.get("data-mcp-args")
        if arguments is not None and read_arguments(arguments) is None:
            self._examined.problems.append(
                f"data-mcp-args={arguments:.60} is no JSON object: write {{% mcp_args %}}"
            )

    def _note_css(self, text: str) -> None:
        for match in _IN_CSS.finditer(_COMMENT.sub("", text)):
            self._note_loaded("".join(match.groups("")).strip())

    def _note_loaded(self, address: str) -> None:
        split = _split(address)
        is_inside = split[0] in ("data", "blob", "about", "javascript") or address.startswith("#")
        if address and not is_inside and not self._is_declared(*split):
            self._examined.loaded.append(address)

    def _is_declared(self, scheme: str, place: str) -> bool:
        # `https://.tiles.example` stands for all hosts below it.
        return any(
            f"{scheme}://{place}" == origin
            or ("://." in origin and f"{scheme}://{place}".endswith(origin.partition("://")[2]))
            for origin in self._origins
        )

    def finish(self, page: str, *, is_part: bool) -> Examined:
        """Return what was found, with what is missing."""
        examined = self._examined
        self._note_css("".join(self._texts["style"]))
        script = "".join(self._texts["script"])
        for client in _read_clients():
            script = script.replace(client, "")
        examined.script = script
        examined.quoted = {text for _, text in _QUOTED.findall(script)}
        examined.problems[:0] = [*([] if is_part else self._missing()), *examined.refused]
        examined.problems += [
            f"the input {name} has no label"
            for id, name in self._inputs
            if not id or id not in self._labelled
        ]
        unclosed = [tag for tag in (*self._unclosed, *self._open) if tag not in _OPEN]
        examined.problems += [f"<{tag}> is not closed" for tag in dict.fromkeys(unclosed)]
        examined.problems += find_duplicates(examined.ids)
        size = len(page.encode())
        if size > MAX_PAGE_BYTES:
            examined.problems.append(
                f"it has {size} bytes, of at most {MAX_PAGE_BYTES}: load large data by a tool"
            )
        return examined

    def _missing(self) -> Iterator[str]:
        if not self._has_language:
            yield "it has no <html lang>"
        if not self._has_title:
            yield "it has no <title>"


@cache
def _read_clients() -> list[str]:
    """Return the scripts of this package, whose texts are no names of tools."""
    folder = files("django_mcp.extensions.apps").joinpath("client")
    return [file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".js")]


def _split(address: str) -> tuple[str, str]:
    """Return scheme and host of an address; what cannot be split is none of the declared ones."""
    try:
        split = urlsplit(address)
    except ValueError:
        return "", ""
    return split.scheme, split.netloc
