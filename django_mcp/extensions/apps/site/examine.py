"""What is wrong with a page: what a host does not load, does not send, or cannot read out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlsplit

MAX_PAGE_BYTES = 1024 * 1024
"""Larger pages are slow to open in any host."""

_LOADING = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "link": ("href",),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "source": ("src", "srcset"),
    "base": ("href",),
    "object": ("data",),
    "embed": ("src",),
}
"""The attributes by which elements load something."""

_UNLABELLED = ("hidden", "submit", "button", "reset", "image")


@dataclass
class Examined:
    """What a page consists of.

    Attributes:
        loaded: the addresses outside of the page that it loads.
        problems: what hosts do not do, and what people cannot read, as sentences without a full stop.
        called: the tools that its elements call.
    """

    loaded: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    called: set[str] = field(default_factory=set)


def examine(page: str, origins: Sequence[str] = ()) -> Examined:
    """Return what a page consists of.

    Args:
        page: HTML.
        origins: those that the app declares, from which it may load.
    """
    parser = _PageParser(origins)
    parser.feed(page)
    parser.close()
    return parser.finish(page)


class _PageParser(HTMLParser):
    def __init__(self, origins: Sequence[str]) -> None:
        super().__init__()
        self._origins = [origin.replace("://*.", "://.") for origin in origins]
        self._examined = Examined()
        self._has_language = self._has_title = False
        self._labelled: set[str] = set()
        self._inputs: list[tuple[str, str]] = []
        self._in_label = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        problems = self._examined.problems
        self._has_language |= tag == "html" and bool(given.get("lang"))
        self._has_title |= tag == "title"
        self._in_label += tag == "label"
        if tag == "label" and "for" in given:
            self._labelled.add(given["for"])
        for name in _LOADING.get(tag, ()):
            self._note_loaded(given.get(name, ""))
        if "data-mcp-call" in given:
            self._examined.called.add(given["data-mcp-call"])
        if tag == "form" and "action" in given:
            problems.append("it has <form action>, which hosts do not send: use data-mcp-call")
        handlers = [name for name in given if name.startswith("on")]
        if handlers:
            problems.append(
                f"<{tag} {handlers[0]}> is a handler in the markup: use addEventListener in a script"
            )
        if tag == "img" and "alt" not in given:
            problems.append("an image has no alt text")
        if tag in ("input", "select", "textarea") and given.get("type") not in _UNLABELLED:
            is_named = self._in_label or given.get("aria-label") or given.get("aria-labelledby")
            if not is_named:
                self._inputs.append((given.get("id", ""), given.get("name", tag)))

    def handle_endtag(self, tag: str) -> None:
        self._in_label -= tag == "label" and self._in_label > 0

    def _note_loaded(self, value: str) -> None:
        for part in value.split(","):
            address = part.split()[0] if part.split() else ""
            split = urlsplit(address)
            is_inside = split.scheme in ("data", "blob", "about") or address.startswith("#")
            if address and not is_inside and not self._is_declared(split.scheme, split.netloc):
                self._examined.loaded.append(address)

    def _is_declared(self, scheme: str, place: str) -> bool:
        # `https://.tiles.example` stands for all hosts below it.
        return any(
            f"{scheme}://{place}" == origin
            or ("://." in origin and f"{scheme}://{place}".endswith(origin.partition("://")[2]))
            for origin in self._origins
        )

    def finish(self, page: str) -> Examined:
        """Return what was found, with what is missing."""
        problems = list(self._missing())
        self._examined.problems[:0] = problems
        size = len(page.encode())
        if size > MAX_PAGE_BYTES:
            self._examined.problems.append(
                f"it has {size} bytes, of at most {MAX_PAGE_BYTES}: load large data by a tool"
            )
        return self._examined

    def _missing(self) -> Iterator[str]:
        if not self._has_language:
            yield "it has no <html lang>"
        if not self._has_title:
            yield "it has no <title>"
        for id, name in self._inputs:
            if not id or id not in self._labelled:
                yield f"the input {name} has no label"
