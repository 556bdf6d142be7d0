"""What a directory would object to in a server, as far as its options and its tools show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django_mcp.conf import settings
from django_mcp.directories.addresses import find_obstacle, public_url_of
from django_mcp.directories.server_json import describe, find_faults
from django_mcp.endpoints.well_known import authenticators_of
from django_mcp.registry.entries import ToolEntry
from django_mcp.servers import MCPServer

MAX_RESULT_BYTES = 150_000
"""Claude replaces larger results by a note; its programs on people's machines have lower limits."""

MAX_TITLE = 30
MAX_LABEL = 64
"""The characters of ChatGPT's directory for the name that people see, and for the name and version of the server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Objection:
    """One thing that a directory would object to.

    Attributes:
        text: begins with the directory.
        fix: what to do.
        is_for_people: it needs the judgement of a person, who may find nothing wrong.
    """

    text: str
    fix: str
    is_for_people: bool = False


_TITLES = {"claude": "Claude", "chatgpt": "ChatGPT", "registry": "The MCP registry"}


def title_of(directory: str) -> str:
    """Return what people call a directory."""
    return _TITLES[directory]


def find_objections(
    server: MCPServer, directory: str, url: str | None = None
) -> Iterator[Objection]:
    """Yield what a directory would object to.

    Args:
        server: with its tools.
        directory: one of `DIRECTORIES`.
        url: of the endpoint on the internet; None: that of `PUBLIC_URL`, if there is one.
    """
    title, address = title_of(directory), url or public_url_of(server)
    for objection in _find(server, directory, address):
        text = f"{title}: {objection.text}"
        yield Objection(text=text, fix=objection.fix, is_for_people=objection.is_for_people)


def _find(server: MCPServer, directory: str, url: str | None) -> Iterator[Objection]:
    if url is None:
        yield Objection(
            text=f"the address of the server {server.name!r} on the internet is not known",
            fix="Set PUBLIC_URL, and include the server in the URLconf at a path without captured values.",
        )
    if directory == "registry":
        for fault in () if url is None else find_faults(describe(server, url)):
            yield Objection(text=fault.text, fix=fault.fix)
        return
    if url is not None and (obstacle := find_obstacle(url)):
        yield Objection(
            text=f"its clients would not reach {url}: it {obstacle}",
            fix="Serve the site over https at port 443, and set PUBLIC_URL to its address.",
        )
    yield from _find_in_options(server, directory)
    for tool in server.registry.tools.values():
        for rule in _RULES:
            yield from rule(tool, directory)


_LINKS = {
    "privacy_url": "privacy policy",
    "terms_url": "terms of use",
    "support_url": "way to get help",
    "website_url": "web page",
}


def links_of(server: MCPServer) -> dict[str, str]:
    """Return the links of a server that people follow from a directory, by their settings."""
    links = {name.upper(): getattr(server.options, name) for name in _LINKS}
    return {name: link for name, link in links.items() if link}


def _find_in_options(server: MCPServer, directory: str) -> Iterator[Objection]:
    options, name = server.options, server.name
    if not options.title:
        yield Objection(text=f"the server {name!r} has no title", fix="Set TITLE.")
    if not options.icons:
        yield Objection(
            text=f"the server {name!r} has no icon",
            fix="Set ICONS to the https address of a square PNG or SVG.",
        )
    for option, what in _LINKS.items():
        link = getattr(options, option)
        if not link:
            text = f"the server {name!r} names no {what}"
            yield Objection(text=text, fix=f"Set {option.upper()}.")
        elif link.startswith("http://"):
            text = f"the {what} of the server {name!r} is not at an https address"
            yield Objection(text=text, fix=f"Correct {option.upper()}.")
    yield from _find_in_authentication(server)
    if directory == "chatgpt":
        yield from _find_too_long(server)
        if settings.OPENAI_APPS_CHALLENGE is None:
            yield Objection(
                text="nothing proves that the domain is yours",
                fix="Set OPENAI_APPS_CHALLENGE to the token that you get when you submit the app.",
            )
    elif options.max_result_bytes > MAX_RESULT_BYTES:
        yield Objection(
            text=f"results of the server {name!r} may have {options.max_result_bytes} bytes, and results above "
            f"about {MAX_RESULT_BYTES} characters are replaced by a note",
            fix=f"Return less, or pages. With MAX_RESULT_BYTES = {MAX_RESULT_BYTES} a larger result is an error, "
            "which tells the model to ask for less.",
            is_for_people=True,
        )


def _find_in_authentication(server: MCPServer) -> Iterator[Objection]:
    authentication, authenticators = server.engine.authentication, authenticators_of(server)
    if authentication is None or authentication.is_public:
        return
    if not any(each.names_authorization_server() for each in authenticators):
        yield Objection(
            text=f"people cannot sign in at the server {server.name!r}: it takes no tokens of OAuth",
            fix="Add django_mcp.contrib.oauth.OAuthAuthenticator or an authenticator of an external issuer to "
            "AUTHENTICATORS, or set PUBLIC. API keys are for other clients.",
        )


def _find_too_long(server: MCPServer) -> Iterator[Objection]:
    options = server.options
    for option, most in (("title", MAX_TITLE), ("name", MAX_LABEL), ("version", MAX_LABEL)):
        text = str(getattr(options, option) or "")
        if len(text) > most:
            yield Objection(
                text=f"the {option} of the server {server.name!r} has {len(text)} characters, and {most} are shown",
                fix=f"Shorten {option.upper()}.",
            )


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _check_name(tool: ToolEntry, _directory: str) -> Iterator[Objection]:
    if not _NAME.fullmatch(tool.name):
        yield Objection(
            text=f"{tool.source}: the name {tool.name!r} is refused",
            fix="Give it a name of at most 64 letters, digits, - and _: name='...', or names= or prefix= where "
            "tools are generated.",
        )


def _check_title(tool: ToolEntry, _directory: str) -> Iterator[Objection]:
    if not str(tool.title or "").strip():
        text = f"{tool.source}: the title of {tool.name} is empty"
        yield Objection(text=text, fix="Give it one: title='...'.")


def _check_hints(tool: ToolEntry, directory: str) -> Iterator[Objection]:
    is_read_only, stated = tool.annotations["readOnlyHint"], tool.stated_hints
    if directory == "claude":
        if not is_read_only and "destructive" not in stated:
            yield Objection(
                text=f"{tool.source}: nothing says what {tool.name} changes, so people are told that it destroys",
                fix="Write read_only=True if it changes nothing, destructive=False if it only adds, else "
                "destructive=True.",
            )
        return
    # A tool that only reads destroys nothing, which need not be said.
    wanted = (
        ("read_only", "open_world") if is_read_only else ("read_only", "destructive", "open_world")
    )
    missing = [f"{name}=" for name in wanted if name not in stated]
    if missing:
        yield Objection(
            text=f"{tool.source}: {', '.join(missing)} of {tool.name} is not stated, and a reason is asked for each "
            "hint",
            fix="State each hint. open_world=False is right for a tool that stays within your site.",
        )


_READS = frozenset(
    {
        "browse", "check", "fetch", "find", "get", "head", "inspect", "list", "load", "lookup",
        "preview", "query", "read", "retrieve", "search", "show", "view",
    }
)  # fmt: skip
_WRITES = frozenset(
    {
        "add", "append", "cancel", "create", "delete", "destroy", "drop", "edit", "insert",
        "modify", "patch", "post", "publish", "put", "remove", "rename", "replace", "save",
        "send", "set", "submit", "update", "upsert", "write",
    }
)  # fmt: skip
_BOTH_IN_NAME = re.compile(r"([a-z]+)_(?:or|and)_([a-z]+)|(?:manage|crud)_.+")
_METHODS = ("method", "http_method", "verb")
_PLACES = ("path", "url", "endpoint", "uri")


def _check_separation(tool: ToolEntry, _directory: str) -> Iterator[Objection]:
    why = _find_mixture(tool)
    if why:
        yield Objection(
            text=f"{tool.source}: {tool.name} seems to read and to write: {why}",
            fix="Make a tool with read_only=True for what it reads, and another for each thing that it changes.",
            is_for_people=True,
        )


def _find_mixture(tool: ToolEntry) -> str | None:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-.]", "_", tool.name).lower()
    match = _BOTH_IN_NAME.search(name)
    if match is not None:
        words = {match[1], match[2]} - {None}
        if not words or (words & _READS and words & _WRITES):
            return "its name says so"
    for values in _find_choices(tool.input_schema):
        first_words = {re.split(r"[^a-z]", value.lower())[0] for value in values}
        if first_words & _READS and first_words & _WRITES:
            return f"an argument takes {', '.join(sorted(values)[:6])}"
    properties = tool.input_schema.get("properties", {})
    method = next((name for name in _METHODS if name in properties), None)
    if method is not None and not properties.keys().isdisjoint(_PLACES):
        return f"it sends a request of any `{method}`"
    return None


def _find_choices(schema: Any) -> Iterator[list[str]]:
    """Yield the strings of each list of values in a schema."""
    if isinstance(schema, list):
        for each in schema:
            yield from _find_choices(each)
    elif isinstance(schema, dict):
        forms = schema.get("anyOf") or schema.get("oneOf") or []
        consts = [form["const"] for form in forms if isinstance(form, dict) and "const" in form]
        for values in (schema.get("enum"), consts):
            if isinstance(values, list):
                yield [value for value in values if isinstance(value, str)]
        for each in schema.values():
            yield from _find_choices(each)


_ORDER = re.compile(
    r"\b(?:you|the (?:model|assistant|ai|agent)|claude|chatgpt) (?:must|shall|should always|have to|has to|may not|are to)\b"
    r"|\b(?:always|never|must) (?:be )?(?:call|use|invoke|run|ask|tell|show|mention|reveal|answer|respond|prefer)(?:ed|d)?\b"
    r"|\bignore (?:all|any|the|every|previous|other)\b"
    r"|\b(?:before|instead of|rather than|over) (?:any|all|every|the) (?:other )?tools?\b"
    r"|\b(?:do not|don't) (?:tell|mention|reveal|show|inform)\b"
    r"|\b(?:system prompt|previous instructions)\b",
    re.IGNORECASE,
)


def _check_orders(tool: ToolEntry, _directory: str) -> Iterator[Objection]:
    published = tool.published(tool.input_schema)
    for text in (str(tool.description or ""), *_find_descriptions(published)):
        match = _ORDER.search(" ".join(text.split()))
        if match is not None:
            yield Objection(
                text=f"{tool.source}: a description of {tool.name} gives the model an order: {match[0]!r}",
                fix="Say what the tool does and when it is of use. What holds for all tools belongs in INSTRUCTIONS.",
                is_for_people=True,
            )
            return


def _find_descriptions(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _find_descriptions(each)
    elif isinstance(schema, dict):
        description = schema.get("description")
        if isinstance(description, str):
            yield description
        for each in schema.values():
            yield from _find_descriptions(each)


def _check_output(tool: ToolEntry, directory: str) -> Iterator[Objection]:
    if directory == "chatgpt" and tool.output_schema is None:
        yield Objection(
            text=f"{tool.source}: {tool.name} has no output schema, which the scan of an app imports",
            fix="Annotate what the function returns, or give returns= or output_schema=.",
            is_for_people=True,
        )


_RULES: tuple[Callable[[ToolEntry, str], Iterator[Objection]], ...] = (
    _check_name,
    _check_title,
    _check_hints,
    _check_separation,
    _check_orders,
    _check_output,
)
