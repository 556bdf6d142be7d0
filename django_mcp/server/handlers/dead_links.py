"""Tell developers of URIs that lead to no resource: in the links of results, and in reads. For sites with `DEBUG` alone."""

from __future__ import annotations

import re

from django_mcp.log import LoggedKinds, logger
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.uri_template import UriTemplate, UriTemplateError
from django_mcp.registry.problems import find_near
from django_mcp.registry.registry import Registry
from django_mcp.server.delivery.notify import find_matches
from django_mcp.server.handlers.whole_results import is_whole
from django_mcp.server.services import ServedCall

_OF_THE_WEB = frozenset({"http", "https", "mailto", "tel", "data", "file"})
"""Schemes that lead elsewhere, unless a server has resources of its own there."""

logged = LoggedKinds(100)
"""Of URIs, with their servers."""

_VARYING = re.compile(r"[^/:?#&=]*\d[^/:?#&=]*")
_SIMPLE = re.compile(r"\{(\w+)\}")


def report_dead_links(call: ServedCall, wire: JSONObject) -> None:
    """Log links of a result that a client could not read, though they look as if they led to a resource of the server."""
    for block in wire.get("content", ()) if call.server.ports.shows_faults else ():
        if block.get("type") == "resource_link":
            _report_link(call, block["uri"])


def report_unmatched(call: ServedCall, uri: str) -> None:
    """Log that a URI which was read matches no template only because of a slash in a variable."""
    registry = call.server.registry
    if any(True for _ in find_matches(registry, uri)):
        return
    advice = _advise(registry, uri)
    if advice and _is_new(call.server.name, uri):
        logger.warning("Resource not found: %.200s.%s", uri, advice)


def _report_link(call: ServedCall, uri: str) -> None:
    registry, scheme = call.server.registry, uri.partition(":")[0].lower()
    if is_whole(uri) or scheme in (call.derived.readers or ()) or scheme in _OF_THE_WEB:
        return
    keys = [*registry.resources, *(each.template.text for each in registry.templates.values())]
    schemes = {key.partition(":")[0].lower() for key in keys}
    near = [scheme] if scheme in schemes else find_near(scheme, schemes, cutoff=0.75)
    if not near or any(True for _ in find_matches(registry, uri)):
        return
    advice = _advise(registry, uri)
    if not advice and near[0] != scheme:
        advice = f" Did you mean {near[0]}:// for {scheme}://?"
    if _is_new(call.server.name, uri):
        logger.warning(
            "%s links to %.200s, and no resource or template of the server %r has this URI, so the link leads "
            "nowhere.%s",
            call.entry.name if call.entry is not None else call.method,
            uri,
            call.server.name,
            advice,
        )


def _advise(registry: Registry, uri: str) -> str:
    """Return which template would match a URI if its variables took slashes; an empty text if none would."""
    for entry in registry.templates.values():
        text = entry.template.text
        wider = _SIMPLE.sub(r"{+\1}", text)
        try:
            is_matched = wider != text and UriTemplate(wider).match(uri) is not None
        except UriTemplateError:
            continue
        if is_matched:
            return f" A variable takes no slash: {wider} would match, in place of {text}."
    return ""


def _is_new(server: str, uri: str) -> bool:
    return logged.add((server, _VARYING.sub("*", uri)[:200]))
