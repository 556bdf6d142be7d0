"""The template tags of pages: the document, and files that are put into it.

A page may load nothing from outside, so styles, scripts and images are read through the finders of static files and
become a part of it.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.template import Library, Node, TemplateSyntaxError
from django.template.base import FilterExpression, NodeList, Parser, Token, token_kwargs
from django.template.context import Context
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, get_language_bidi, gettext

from django_mcp import __version__
from django_mcp.extensions.apps.site.values import find_plain, find_terms, tell
from django_mcp.protocol.json import encode

register = Library()

MAX_FILE_BYTES = 1024 * 1024
"""Of a file that is put into a page."""


@cache
def read_client(name: str) -> str:
    """Return a file of the client of a page, such as `app.js`."""
    return files("django_mcp.extensions.apps").joinpath("client", name).read_text("utf-8")


class PageNode(Node):
    """`{% mcp_app title="Sales" %}...{% endmcp_app %}`: the whole document of a page."""

    def __init__(self, nodes: NodeList, options: dict[str, FilterExpression]) -> None:
        self.nodelist = nodes
        self._options = options

    def render(self, context: Context) -> SafeString:
        title = self._options["title"].resolve(context)
        content = self.nodelist.render(context)
        return format_html(
            '<!doctype html>\n<html lang="{}" dir="{}" data-name="{}" data-version="{}" data-cancelled="{}" data-waiting="{}">\n'
            '<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<title>{}</title>\n<style>\n{}</style>\n<script>\n{}</script>\n</head>\n"
            '<body>\n<main>{}</main>\n<p data-mcp-status role="status" aria-live="polite"></p>\n</body>\n</html>\n',
            get_language() or settings.LANGUAGE_CODE,
            "rtl" if get_language_bidi() else "ltr",
            title,
            __version__,
            gettext("This was cancelled."),
            gettext("There is no answer yet."),
            title,
            mark_safe(read_client("app.css")),  # noqa: S308 - a file of this package
            mark_safe(read_client("app.js")),  # noqa: S308 - a file of this package
            content,
        )


@register.tag("mcp_app")
def read_page(parser: Parser, token: Token) -> PageNode:
    """Make the document of a page; `title=` is needed."""
    name, *bits = token.split_contents()
    options = token_kwargs(bits, parser)
    if bits or options.keys() != {"title"}:
        raise TemplateSyntaxError(f'Write {{% {name} title="..." %}}.')
    nodes = parser.parse((f"end{name}",))
    parser.delete_first_token()
    return PageNode(nodes, options)


@register.simple_tag
def mcp_style(path: str) -> SafeString:
    """Put a style sheet from the static files into the page."""
    return format_html("<style>{}</style>", _inline(path, "</style"))


@register.simple_tag
def mcp_script(path: str) -> SafeString:
    """Put a script from the static files into the page."""
    return format_html("<script>{}</script>", _inline(path, "</script"))


@register.simple_tag
def mcp_image(path: str, alt: str, **attributes: Any) -> SafeString:
    """Put an image from the static files into the page, with a text for those who do not see it."""
    mime_type = mimetypes.guess_type(path)[0] or ""
    if not mime_type.startswith("image/"):
        raise TemplateSyntaxError(f"{path} is no image.")
    data = base64.b64encode(find_file(path).read_bytes()).decode()
    more = "".join(
        f' {conditional_escape(name)}="{conditional_escape(value)}"'
        for name, value in attributes.items()
    )
    return format_html(
        '<img src="data:{};base64,{}" alt="{}"{}>',
        mime_type,
        data,
        alt,
        mark_safe(more),  # noqa: S308 - escaped above
    )


@register.simple_tag
def mcp_charts() -> SafeString:
    """Put what draws the elements with `data-mcp-chart` into the page; it has some 55 KB."""
    return format_html(
        "<style>{}</style><script>{}</script><script>{}</script>",
        mark_safe(_read_plot("uPlot.min.css")),  # noqa: S308 - a file of this package
        mark_safe(_read_plot("uPlot.iife.min.js")),  # noqa: S308 - a file of this package
        mark_safe(read_client("chart.js")),  # noqa: S308 - a file of this package
    )


@cache
def _read_plot(name: str) -> str:
    # The site may not serve or even find the static files of this package.
    plot = files("django_mcp").joinpath("static", "django_mcp", "admin", "vendor", "uplot", name)
    return plot.read_text("utf-8")


@register.simple_tag
def mcp_args(**arguments: Any) -> SafeString:
    """Write the attribute `data-mcp-args` with arguments of a call."""
    return format_html('data-mcp-args="{}"', encode(arguments).decode())


@register.filter
def mcp_values(result: Any) -> list[tuple[str, str]]:
    """Return the texts and numbers of a result with their names for people."""
    return find_plain(result)


@register.filter
def mcp_json(value: object) -> str:
    """Return a value as JSON, for an attribute such as `data-mcp-args="{{ row.arguments|mcp_json }}"`."""
    return encode(value).decode()


@register.filter
def mcp_told(value: object) -> str:
    """Return a value as a whole text for people."""
    return tell(value, keeps_lines=True)


@register.filter
def mcp_terms(values: object, schema: object) -> list[tuple[str, str]]:
    """Return the values of an object with their names for people: `arguments|mcp_terms:tool.input_schema`."""
    return find_terms(
        values if isinstance(values, Mapping) else {},
        schema if isinstance(schema, dict) else {},
        keeps_lines=True,
    )


def find_file(path: str) -> Path:
    """Return a static file; raises `TemplateSyntaxError` if there is none, or a large one."""
    found = finders.find(path)
    if not isinstance(found, str):
        raise TemplateSyntaxError(f"There is no static file {path}.")
    file = Path(found)
    size = file.stat().st_size
    if size > MAX_FILE_BYTES:
        raise TemplateSyntaxError(
            f"The static file {path} has {size} bytes, of at most {MAX_FILE_BYTES}."
        )
    return file


def _inline(path: str, end: str) -> SafeString:
    text = find_file(path).read_text("utf-8")
    if end in text.lower():
        raise TemplateSyntaxError(
            f"The static file {path} holds {end}, which would end it in the page."
        )
    return mark_safe(text)  # noqa: S308 - a static file of the site
