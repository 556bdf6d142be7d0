"""System checks of the pages of tools."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import global_settings, settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.template import TemplateDoesNotExist
from django.template.loader import get_template, render_to_string
from django.utils.translation import override

from django_mcp.checks.declared import check
from django_mcp.extensions.apps.core.app import EXTENSION, App, Shown
from django_mcp.extensions.apps.site.examine import examine
from django_mcp.registry.entries import ToolEntry
from django_mcp.servers import MCPServer, all_servers


@check()
def check_apps() -> Iterator[CheckMessage]:
    """Report a page that cannot be shown, or not as it is meant."""
    for server in all_servers():
        seen: set[App] = set()
        for tool, shown in _find_shown(server):
            if shown.app is None:
                continue
            if shown.app.template is not None and tool.output_schema is None:
                yield checks.Warning(
                    f"{tool.source} has a page, and no structured output for it.",
                    hint="Annotate what it returns, such as -> SalesData, or give it returns=.",
                    id="django_mcp.apps.W001",
                )
            if shown.app not in seen:
                seen.add(shown.app)
                yield from _check_templates(tool, shown.app)


@check(id="django_mcp.apps.W004")
def check_called_by_pages() -> Iterator[CheckMessage]:
    """Report a tool for pages alone, which no page calls."""
    for server in all_servers():
        shown = list(_find_shown(server))
        pages = [_read(option.app) for _, option in shown if option.app is not None]
        for tool, option in shown:
            if option.visibility == ("app",) and not any(tool.name in page for page in pages):
                yield checks.Warning(
                    f"{tool.source} has visible_to='app', and no page of the server names it.",
                    hint=f'Call it from a page, as in <button data-mcp-call="{tool.name}">, or leave '
                    "visible_to out.",
                )


def _find_shown(server: MCPServer) -> Iterator[tuple[ToolEntry, Shown]]:
    for tool in server.registry.tools.values():
        if EXTENSION in tool.extensions:
            yield tool, tool.extensions[EXTENSION]


def _check_templates(tool: ToolEntry, app: App) -> Iterator[CheckMessage]:
    for template in filter(None, (app.template, app.fragment)):
        try:
            get_template(template)
        except TemplateDoesNotExist:
            yield Error(
                f"{tool.source} has the template {template}, which no engine of TEMPLATES finds.",
                hint=f"Write it, for instance as templates/{template} of the app of the tool.",
                id="django_mcp.apps.E001",
            )
            return
    if app.template is None:
        return
    page = ""
    for language in _languages():
        try:
            with override(language):
                page = render_to_string(app.template)
        except Exception as error:  # noqa: BLE001 - a template of the site may raise anything
            yield Error(
                f"The page {app.template} cannot be rendered in {language}: "
                f"{type(error).__name__}: {error}",
                hint="It gets no request, no user and no data: those come with the result of a call.",
                id="django_mcp.apps.E002",
            )
            return
    examined = examine(page, app.csp.origins if app.csp is not None else ())
    for address in dict.fromkeys(examined.loaded):
        yield checks.Warning(
            f"The page {app.template} loads {address}, which hosts refuse.",
            hint="Put the file into the page with {% mcp_style %}, {% mcp_script %} or {% mcp_image %}, "
            "or declare its origin in App(csp=Csp(resource=[...])).",
            id="django_mcp.apps.W002",
        )
    for problem in dict.fromkeys(examined.problems):
        yield checks.Warning(
            f"The page {app.template} has a fault: {problem}.", id="django_mcp.apps.W003"
        )


def _languages() -> list[str]:
    """Return the languages of the site: all that it names, or that of the site alone."""
    codes = [code for code, _ in settings.LANGUAGES]
    are_all = codes == [code for code, _ in global_settings.LANGUAGES]
    return [settings.LANGUAGE_CODE] if are_all else codes


def _read(app: App) -> str:
    """Return the text of the templates of an app, as far as they can be rendered."""
    texts: list[str] = []
    for template in filter(None, (app.template, app.fragment)):
        try:
            texts.append(render_to_string(template, {"result": {}}))
        except Exception:  # noqa: BLE001 - reported as E001 or E002
            texts.append("")
    return "\n".join(texts)
