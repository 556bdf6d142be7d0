"""Apps: pages of tools, which hosts show in a conversation.

`core` is without Django, `site` has the templates and their tags, `client` what a page contains of this package,
and `checks` the system checks.
"""

from __future__ import annotations

from django_mcp.extensions.apps.core.app import App, ArgumentsForm, Csp, Rendered
from django_mcp.extensions.apps.core.confirm import Confirm

__all__ = ["App", "ArgumentsForm", "Confirm", "Csp", "Rendered"]
