"""`{% load mcp_apps %}`: the template tags of pages of tools, if that extension is there."""

from __future__ import annotations

from django.template import Library

from django_mcp.extension_packages import load_parts

register = Library()
for part in load_parts("site.tags"):
    register.tags.update(part.register.tags)
    register.filters.update(part.register.filters)
