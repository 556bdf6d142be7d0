"""Apps: pages of tools, which hosts show in a conversation.

`core` is without Django, `site` has the templates and their tags, `client` the styles and scripts that each page gets,
`admin` the preview in the catalogue, `checks` the system checks, and `testing` what the test client does with pages.
"""

from __future__ import annotations

from django_mcp.extensions.apps.core.app import App, ArgumentsForm, Csp, Rendered
from django_mcp.extensions.apps.core.confirm import Confirm
from django_mcp.extensions.apps.core.ready import Card, Chart, Table

__all__ = ["App", "ArgumentsForm", "Card", "Chart", "Confirm", "Csp", "Rendered", "Table"]
