"""AppsExtension: pages that hosts show with calls of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

from django_mcp.extensions.apps.core.app import (
    ERRORS_KEY,
    EXTENSION,
    HTML_KEY,
    MIME_TYPE,
    SENT_FRAGMENT,
    App,
    AppContext,
    Rendered,
    Shown,
    read_shown,
)
from django_mcp.extensions.apps.core.confirm import QUESTION, Agree, confirm_first
from django_mcp.extensions.apps.core.ready import read_ready
from django_mcp.log import logger
from django_mcp.protocol.content import TextContents
from django_mcp.protocol.errors import Refusal, ToolError
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.results import ReadResult
from django_mcp.protocol.revisions import Revision
from django_mcp.registry.building import Providers
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.call import Call, ToConfirm
from django_mcp.server.extension import Answer, Extension, NextCall
from django_mcp.server.request_checks import check_scopes
from django_mcp.server.services import ServedCall


class Templates(Protocol):
    """Renders the templates of apps in the active language."""

    async def render_page(self, template: str) -> str:
        """Return a page as HTML, which is the same for all users."""

    async def render_fragment(
        self, app: App, rendered: Rendered, call: ServedCall, room: int
    ) -> str | None:
        """Return the part of a page for the result of a call as HTML.

        Args:
            app: has the template.
            rendered: the result.
            call: the call.
            room: bytes that the part may have in JSON.

        Returns:
            None: the result, or the part, is too large.
        """


_SENT = App(fragment=SENT_FRAGMENT)


class AppsExtension(Extension):
    """Pages of tools, which hosts show in a conversation.

    Source: MCP Apps (SEP-1865) of 2026-01-26.
    """

    identifier = EXTENSION
    uri_schemes = ("ui",)
    describes = True
    # Those of a tool decide who may read its page.
    permission = ()
    scopes = ()

    def __init__(self, templates: Templates, agree: Agree) -> None:
        self._templates = templates
        self._sent: dict[str, str | None] = {}
        """The tools that forms call, and the argument of each for the values of its form."""
        self.agree = agree

    def is_offered(self, registry: Registry) -> bool:
        shown = [tool.extensions.get(self.identifier) for tool in registry.tools.values()]
        # Those of generated sources need no option of their own.
        self._sent = {each.sends_to: each.sends_into for each in shown if each and each.sends_to}
        return any(each is not None for each in shown)

    @classmethod
    def read_option(cls, value: Any) -> Shown:
        return read_shown(read_ready(value))

    @classmethod
    def complete_tool(cls, tool: ToolEntry, providers: Providers) -> ToolEntry:
        confirm = tool.extensions[cls.identifier].confirm
        if confirm is None:
            return tool
        return confirm_first(tool, confirm, providers, cls.identifier)

    def is_active(self, call: Call) -> bool:
        """See `Extension.is_active`. The client must also say that it shows pages of this type."""
        if not super().is_active(call):
            return False
        types = call.client_extensions[self.identifier].get("mimeTypes")
        return isinstance(types, list) and MIME_TYPE in types

    def describe(self, entry: Entry, revision: Revision) -> Mapping[str, Any]:
        shown: Shown | None = self.option_of(entry)
        if shown is None:
            return {}
        ui: dict[str, Any] = {}
        if shown.app is not None and shown.app.template is not None:
            ui["resourceUri"] = self.uri_of(shown.app.template)
        if shown.visibility is not None:
            ui["visibility"] = list(shown.visibility)
        return {"_meta": {"ui": ui}} if ui else {}

    def wraps(self, tool: ToolEntry) -> bool:
        return self._find_fragment(tool) is not None

    def _find_fragment(self, tool: ToolEntry) -> App | None:
        """Return what a part of a page is made with for results of a tool; None: there is none."""
        shown: Shown | None = self.option_of(tool)
        if shown is not None and shown.app is not None and shown.app.fragment is not None:
            return shown.app
        return _SENT if tool.name in self._sent else None

    async def call_tool(
        self, call: ServedCall, tool: ToolEntry, arguments: JSONObject, call_next: NextCall
    ) -> Answer:
        """Add the part of the page to the result of a call, for clients that show pages."""
        if not self.is_active(call):
            return await call_next()
        shown: Shown | None = self.option_of(tool)
        questions: list[ToConfirm] = []
        if shown is not None and shown.confirm is not None:
            call.show_question = questions.append
        outcome = await call_next()
        if isinstance(outcome, Refusal) or not outcome:
            return outcome
        result: JSONObject = decode(outcome)
        if "content" not in result or result.get("isError"):
            return outcome
        app = self._find_fragment(tool)
        if questions:
            asked = {"to_confirm": questions[-1]}
            app = App(fragment=QUESTION, context=lambda _rendered: asked)
        if app is None:
            return outcome
        rendered = Rendered(
            tool=tool,
            arguments=arguments,
            result=result.get("structuredContent", _read_text(result)),
            user=call.context.user,
            find=partial(_find_seen, call),
            variables=call.context.extensions[self.identifier].variables,
        )
        html = await self._render(app, rendered, call, call.options.max_result_bytes - len(outcome))
        if html is None and questions:
            raise ToolError("The page that asks the user cannot be shown.")
        if html is None:
            return outcome
        return {**result, "_meta": {**result.get("_meta", {}), HTML_KEY: html}}

    async def _render(
        self, app: App, rendered: Rendered, call: ServedCall, room: int
    ) -> str | None:
        """Return the part of a page; None: it cannot be rendered. What the tool did is done."""
        template, tool = app.fragment, rendered.tool
        try:
            # The time limit of the tool has ended with its handler.
            async with asyncio.timeout(_find_timeout(call, tool)):
                html = await self._templates.render_fragment(app, rendered, call, room)
        except Exception:
            logger.exception("Could not render %s for the result of %s", template, tool.name)
            return None
        if html is None:
            text = "%s was not rendered: the result of %s is too large for it"
            logger.warning(text, template, tool.name)
        return html

    def make_context(self, call: ServedCall) -> AppContext:
        """Return what tools say of a part of the page."""
        return AppContext(is_shown=self.is_active(call))

    def describe_problems(
        self, call: ServedCall, tool: ToolEntry, problems: Sequence[Problem]
    ) -> Mapping[str, Any]:
        """Return what is wrong with the fields of a form, for clients that show pages."""
        if tool.name not in self._sent or not self.is_active(call):
            return {}
        into = self._sent[tool.name]
        errors: dict[str, list[str]] = {}
        for problem in problems:
            _, *path = problem.pointer.replace("~1", "/").replace("~0", "~").split("/")
            if into is not None and path[:1] == [into]:
                del path[0]
            errors.setdefault(path[0] if path else "", []).append(problem.message)
        return {ERRORS_KEY: errors}

    def uri_of(self, template: str) -> str:
        """Return the URI of the page that a template makes on this server."""
        return f"ui://{quote(self.server_name, safe='')}/{quote(template)}"

    async def read_resource(self, call: ServedCall, uri: str) -> ReadResult | Refusal | None:
        """Return the page at a URI, for those who see a tool that it is for."""
        refusal: Refusal | None = None
        for tool, app in self._find_tools(call, uri):
            refusal = check_scopes(call, tool)
            if refusal is None:
                call.entry = tool
                return await self._read(app, uri)
        return refusal

    def _find_tools(self, call: ServedCall, uri: str) -> list[tuple[ToolEntry, App]]:
        shown = [(tool, self.option_of(tool)) for tool in call.server.registry.tools.values()]
        return [
            (tool, option.app)
            for tool, option in shown
            if option is not None
            and option.app is not None
            and option.app.template is not None
            and self.uri_of(option.app.template) == uri
            and call.exchange.caller.visible.includes(tool)
        ]

    async def _read(self, app: App, uri: str) -> ReadResult:
        page, ui = await self._templates.render_page(app.template or ""), app.to_wire()
        meta = {"ui": ui} if ui else None
        contents = TextContents(uri=uri, text=page, mime_type=MIME_TYPE, meta=meta)
        return ReadResult([contents])


def _find_timeout(call: ServedCall, tool: ToolEntry) -> float | None:
    """Return how many seconds the part of a page may take, as many as the tool."""
    if tool.timeout_s is not None:
        return tool.timeout_s
    options = call.options
    return options.call_timeout_s if call.detached_run is None else options.task_timeout_s


EXTENSION_CLASS = AppsExtension


def in_memory(_clock: Callable[[], float]) -> AppsExtension:
    """Return the extension of a server without a site, which has no templates."""
    return AppsExtension(_NoTemplates(), _agree_nowhere)


def _agree_nowhere(*_call: Any) -> JSONObject | None:
    raise RuntimeError("Without Django, nobody can be asked to confirm a call.")


def _read_text(result: JSONObject) -> str:
    """Return the text of a result for people."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


class _NoTemplates:
    async def render_page(self, template: str) -> str:
        raise RuntimeError(f"There are no templates without Django, such as {template}.")

    async def render_fragment(
        self, app: App, rendered: Rendered, call: ServedCall, room: int
    ) -> str | None:
        return await self.render_page(app.fragment or "")


def _find_seen(call: ServedCall, name: str) -> ToolEntry | None:
    tool = call.server.registry.tools.get(name)
    return tool if tool is not None and call.exchange.caller.visible.includes(tool) else None
