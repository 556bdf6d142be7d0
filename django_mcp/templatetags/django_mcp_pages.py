"""What the pages for users load."""

from __future__ import annotations

from django import template

from django_mcp.pages.style import find_style_url

register = template.Library()
register.simple_tag(find_style_url, name="page_style")
