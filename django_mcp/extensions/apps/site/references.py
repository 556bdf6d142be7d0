"""What the pages of a server refer to, and is not there: elements by their ids, tools, and values of results.

Only what is certain is told: what a script, a tag of the site or an open schema may add is taken to be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from django.template.loader import render_to_string

from django_mcp.extensions.apps.core.app import EXTENSION, App, Shown, shown_of
from django_mcp.extensions.apps.site.called import find_called
from django_mcp.extensions.apps.site.examine import REFERENCES, Examined, examine
from django_mcp.extensions.apps.site.lookups import Lookup, Typed, find_free, find_lookups, may_have
from django_mcp.extensions.apps.site.ready.naming import find_actions
from django_mcp.extensions.apps.site.sources import read_sources
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.registry.problems import did_you_mean, find_near

_TEXT = "data-mcp-text"
_AFTER = "data-mcp-after"

_VALUE = r"""\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>=`]+))"""
_REFERENCE = re.compile(rf"(?<![\w-])({'|'.join(REFERENCES)}){_VALUE}")
_PREFIX = "data-mcp-"
_ATTRIBUTE = re.compile(rf"(?<![\w-]){_PREFIX}[\w-]+")
_ATTRIBUTES = frozenset(
    "after args bad-json call changed chart clear decline declined done empty error errors field filter focus form into late loading "  # noqa: SIM905 - names
    "part points question reads result sending status submit swap text with".split()
)
"""What the script of a page reads or writes, after the prefix."""

_ID = re.compile(rf"(?<![\w-])id{_VALUE}")
_IN_SELECTOR = re.compile(r"#([\w-]+)")
_COMMENT = re.compile(
    r"\{#.*?#\}|\{%\s*comment\b.*?%\}.*?\{%\s*endcomment\s*%\}|<!--.*?-->", re.DOTALL
)
_SYNTAX = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_TAG = re.compile(r"\{%-?\s*(\w+)")
_UNESCAPED = re.compile(r"\|\s*safe|\bautoescape\b|\{%\s*include\s+[^\"'\s]")
_MAKES_ELEMENTS = re.compile(
    r"\.id\b|innerHTML|outerHTML|insertAdjacent|createElement|setAttribute|template|cloneNode|append"
)

_KNOWN_TAGS = frozenset(
    "block blocktrans blocktranslate comment cycle elif else empty endblock endblocktrans endblocktranslate endcomment "  # noqa: SIM905 - names
    "endfilter endfor endif endifchanged endlocalize endlocaltime endmcp_app endspaceless endtimezone endwith extends "
    "filter firstof for get_available_languages get_current_language get_current_language_bidi get_current_timezone if "
    "ifchanged include load localize localtime mcp_app mcp_args mcp_charts mcp_image mcp_script mcp_style now plural "
    "regroup resetcycle spaceless static templatetag timezone trans translate url widthratio with".split()
)
"""The tags that write no elements with ids. Those of a site may."""

_OWN = "django_mcp/"
"""Where the templates of this package are, which know each other's ids."""

_OWN_IDS = "mcp-"


@dataclass(frozen=True)
class Lost:
    """Something that a template refers to, and that is not there.

    Attributes:
        template: its name.
        reference: as it is written in the template.
        problem: what is wrong with it, as the end of a sentence.
        hint: what to do.
        is_value: it is a value of results.
    """

    template: str
    reference: str
    problem: str
    hint: str
    is_value: bool = False


def find_lost(tools: Mapping[str, Entry]) -> list[Lost]:
    """Return what the pages of these tools refer to, and is not there.

    A part of several pages may refer to what one of them has.
    """
    reader = _Reader(tools)
    lost: dict[str, list[set[Lost]]] = {}
    for page in reader.find_pages():
        for template in page.templates:
            lost.setdefault(template.name, []).append(set(page.find_lost(template)))
    found = set().union(*(set.intersection(*each) for each in lost.values()))
    found.update(reader.find_lost_lookups())
    return sorted(found, key=lambda each: (each.template, each.reference))


class _Template:
    """A template, with what it refers to and what it has."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Only what is not rendered with data is known before a call.
        self.sources = [_COMMENT.sub("", source) for source in read_sources(name)]

    @cached_property
    def examined(self) -> Examined:
        """What it has without data."""
        try:
            return examine(render_to_string(self.name, {"result": {}}), is_part=True)
        except Exception:  # noqa: BLE001 - reported as E001 or E002
            return Examined()

    @cached_property
    def called(self) -> set[str]:
        """The names of tools that it may call."""
        sources = set().union(*map(find_called, self.sources))
        return self.examined.called | self.examined.quoted | sources

    @cached_property
    def ids(self) -> set[str]:
        """The ids of its elements; what the template writes into one is in its syntax."""
        ids = {"".join(each.groups("")) for source in self.sources for each in _ID.finditer(source)}
        return ids | self.examined.ids.keys()

    @cached_property
    def unknown_attributes(self) -> set[str]:
        """The attributes that are named as those of this package are, and are none of them."""
        names = {name for source in self.sources for name in _ATTRIBUTE.findall(source)}
        return names - {_PREFIX + name for name in _ATTRIBUTES}

    @cached_property
    def makes_elements(self) -> bool:
        """Whether it may have elements that are not in its text."""
        return bool(_MAKES_ELEMENTS.search(self.examined.script)) or self._writes_elements()

    def _writes_elements(self) -> bool:
        return not self.sources or any(
            _UNESCAPED.search(source) or not _KNOWN_TAGS.issuperset(_TAG.findall(source))
            for source in self.sources
        )

    def find_references(self, *, is_page: bool) -> Iterator[tuple[str, str]]:
        """Yield the attributes that refer to something, with what they have.

        A page is rendered without data, so that nothing else is in it later.
        """
        if is_page:
            yield from self.examined.references
            return
        for source in self.sources:
            for name, *values in _REFERENCE.findall(source):
                value = "".join(values)
                if "{" not in value:
                    yield name, value


@dataclass(frozen=True, kw_only=True)
class _Page:
    """A page with the parts that may come into it.

    Attributes:
        shown: the tools whose results it shows.
        may_call_any: they may be any tools.
        has_html: the site may put HTML into the variables of a part.
    """

    template: _Template
    parts: list[_Template]
    shown: list[ToolEntry]
    tools: Mapping[str, Entry]
    may_call_any: bool
    has_html: bool

    @property
    def templates(self) -> list[_Template]:
        return [self.template, *(each for each in self.parts if each.name != self.template.name)]

    def find_lost(self, template: _Template) -> Iterator[Lost]:
        if template.name.startswith(_OWN):
            return
        for name in sorted(template.unknown_attributes):
            near = find_near(name.removeprefix(_PREFIX), _ATTRIBUTES, cutoff=0.75)
            if near:
                hint = f"Did you mean {_PREFIX + near[0]!r}?"
                yield Lost(template.name, name, "nothing reads this attribute", hint)
        for name, value in template.find_references(is_page=template is self.template):
            reference = f'{name}="{value}"'
            for problem, hint in self._find_problems(name, value):
                yield Lost(template.name, reference, problem, hint, is_value=name == _TEXT)

    def _find_problems(self, name: str, value: str) -> Iterator[tuple[str, str]]:
        if name == _AFTER:
            for tool in value.split():
                if tool not in self.tools:
                    near = did_you_mean(tool, self.tools)
                    yield f"{tool!r:.80} is no tool of the server", f"Name a tool.{near}"
        elif name == _TEXT:
            if value and not self.may_call_any and not self._may_show(value.split(".")):
                members = sorted({each for tool in self.shown for each in Typed.of(tool).members})
                near = did_you_mean(value, members)
                yield (
                    f"no result that the page shows has {value!r:.80}",
                    f"Name a member of the output schema, such as 'number' or 'customer.name'.{near}",
                )
        else:
            yield from self._find_lost_ids(name, value)

    def _may_show(self, path: list[str]) -> bool:
        return not self.shown or any(
            may_have(Typed.of(tool), path) for tool in self.shown if tool.output_schema is not None
        )

    def _find_lost_ids(self, name: str, value: str) -> Iterator[tuple[str, str]]:
        ids = self._ids
        if ids is None or "[" in value or "(" in value:
            return
        for id in _IN_SELECTOR.findall(value):
            if not id.startswith(_OWN_IDS) and not any(
                known.fullmatch(id) for known in ids.values()
            ):
                yield f"no element has the id {id!r:.80}", f"Is it right?{did_you_mean(id, ids)}"
            elif name == "data-mcp-with" and value == f"#{id}" and not self._is_input(id):
                yield (
                    f"the element with the id {id!r:.80} has no value",
                    "Name inputs that have a name.",
                )

    def _is_input(self, id: str) -> bool:
        """Return whether an element may be an input with a name: each that is not of the page itself may."""
        inputs = self.template.examined.inputs
        is_of_page = self.template.examined.ids[id] > 0
        return not is_of_page or bool(inputs.get(id))

    @cached_property
    def _ids(self) -> dict[str, re.Pattern[str]] | None:
        """The ids of the page and its parts; None: there may be others."""
        if self.may_call_any or self.has_html or any(each.makes_elements for each in self.parts):
            return None
        if _MAKES_ELEMENTS.search(self.template.examined.script):
            return None
        return {id: _to_pattern(id) for each in self.templates for id in each.ids}


def _to_pattern(id: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, _SYNTAX.split(id))))


@dataclass
class _Reader:
    """Reads the templates of a server, each once."""

    tools: Mapping[str, Entry]
    _templates: dict[str, _Template] = field(default_factory=dict)

    def find_pages(self) -> Iterator[_Page]:
        """Yield the pages of the tools."""
        by_template: dict[str, list[ToolEntry]] = {}
        for tool, shown in self._find_shown():
            if shown.app is not None and shown.app.template is not None:
                by_template.setdefault(shown.app.template, []).append(tool)
        for name, tools in by_template.items():
            yield self._read_page(name, tools)

    def _read_page(self, name: str, tools: Iterable[ToolEntry]) -> _Page:
        page = self._read(name)
        left, reached = list(tools), dict[str, ToolEntry]()
        parts: dict[str, _Template] = {}
        may_call_any = has_html = False
        names = set(page.called)
        while left or names:
            for tool in left:
                reached[tool.name] = tool
                shown = shown_of(tool)
                names |= {shown.sends_to} if shown.sends_to else set()
                if (app := shown.app) is None:
                    continue
                names |= {*find_actions(app)}
                # The site's function may put HTML into a variable.
                has_html |= app.context is not None
                if app.fragment is not None:
                    parts[app.fragment] = part = self._read(app.fragment)
                    names |= part.called
            # A template that makes names may call any tool.
            may_call_any |= any("{" in each for each in names)
            known = [self.tools.get(each) for each in names]
            left = [
                each for each in known if isinstance(each, ToolEntry) and each.name not in reached
            ]
            names = set()
        return _Page(
            template=page,
            parts=list(parts.values()),
            shown=list(reached.values()),
            tools=self.tools,
            may_call_any=may_call_any,
            has_html=has_html,
        )

    def find_lost_lookups(self) -> Iterator[Lost]:
        """Yield what parts of pages show of results and arguments, and these never have."""
        by_part: dict[str, list[tuple[ToolEntry, App]]] = {}
        for tool, shown in self._find_shown():
            if shown.app is not None and shown.app.fragment is not None:
                by_part.setdefault(shown.app.fragment, []).append((tool, shown.app))
        for name, uses in by_part.items():
            # A form shows the result of another tool.
            if name.startswith(_OWN) or any(app.form is not None for _, app in uses):
                continue
            tools = [tool for tool, _ in uses]
            roots: dict[str, list[Typed]] = {
                "result": [Typed.of(tool) for tool in tools],
                "arguments": [Typed.of_arguments(tool) for tool in tools],
            }
            for lookup in find_lookups(name, roots):
                yield _to_lost(name, lookup)
            # Another class of apps, the site's function, and a tool by its context may add variables.
            if all(
                type(app) is App and app.context is None and not tool.handler.injections
                for tool, app in uses
            ):
                yield from _find_unset(name, roots["result"])

    def _find_shown(self) -> Iterator[tuple[ToolEntry, Shown]]:
        for tool in self.tools.values():
            if isinstance(tool, ToolEntry) and EXTENSION in tool.extensions:
                yield tool, tool.extensions[EXTENSION]

    def _read(self, name: str) -> _Template:
        return self._templates.setdefault(name, _Template(name))


def _to_lost(template: str, lookup: Lookup) -> Lost:
    near = did_you_mean(lookup.name, lookup.members)
    what = "an argument of the tool" if lookup.is_argument else "a member of the output schema"
    return Lost(
        template,
        lookup.text,
        f"{lookup.name!r:.80} is not in the schema of its tool",
        f"Name {what}.{near}",
        is_value=True,
    )


_GIVEN = ("result", "arguments", "tool", "user")
"""The variables of a part."""


def _find_unset(template: str, results: Iterable[Typed]) -> Iterator[Lost]:
    """Yield variables that are always empty: members of the result without it, and misspelt names of what is given."""
    members = {name for result in results for name in result.members}
    for variable in find_free(template):
        text = str(variable.var)
        name = text.partition(".")[0]
        if name in _GIVEN:
            continue
        hint = f"Write result.{text}." if name in members else ""
        if not hint and (near := find_near(name, _GIVEN[:2], cutoff=0.75)):
            hint = f"Did you mean {near[0]!r}?"
        if hint:
            problem = f"nothing gives the part a variable {name!r:.80}"
            yield Lost(template, text, problem, hint, is_value=True)
