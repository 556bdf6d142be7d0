"""The sources of templates: what stands in them, whatever the data with which they are rendered."""

from __future__ import annotations

from collections.abc import Iterator

from django.template import Node, TemplateDoesNotExist, TemplateSyntaxError
from django.template.base import Template
from django.template.loader import get_template
from django.template.loader_tags import ExtendsNode, IncludeNode


def read_sources(name: str) -> list[str]:
    """Return the source of a template, and of those that it includes or extends by name.

    Templates of other engines than Django's have none, nor have those with a fault.
    """
    return list(read_named_sources(name).values())


def read_named_sources(name: str) -> dict[str, str]:
    """Do as `read_sources` does; return the sources by the names of their templates."""
    sources: dict[str, str] = {}
    _read(name, sources)
    return sources


def _read(name: str, sources: dict[str, str]) -> None:
    if name in sources:
        return
    try:
        template = getattr(get_template(name), "template", None)
    except (TemplateDoesNotExist, TemplateSyntaxError):
        return
    if isinstance(template, Template):
        sources[name] = str(template.source)
        for other in _find_names(template):
            _read(other, sources)


def _find_names(template: Template) -> Iterator[str]:
    kinds: tuple[tuple[type[Node], str], ...] = (
        (IncludeNode, "template"),
        (ExtendsNode, "parent_name"),
    )
    for kind, attribute in kinds:
        for node in template.nodelist.get_nodes_by_type(kind):
            name = getattr(node, attribute).var
            # A variable names another one in each rendering.
            if isinstance(name, str):
                yield name
