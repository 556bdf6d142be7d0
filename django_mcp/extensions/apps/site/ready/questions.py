"""Questions: what a tool asks before it does something, and what it says when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from django_mcp.extensions.apps.core.app import Rendered
from django_mcp.extensions.apps.core.ready import Question
from django_mcp.extensions.apps.site.ready.acts import CONFIRMATION, DETAIL, write_arguments
from django_mcp.extensions.apps.site.ready.rows import properties_of
from django_mcp.extensions.apps.site.ready.tables import Context


def describe_question(_app: Question, rendered: Rendered) -> Context:
    """Return the variables of a question, or of what was done."""
    tool, result = rendered.tool, rendered.result
    members: Mapping[str, Any] = result if isinstance(result, Mapping) else {}
    confirmation = members.get(CONFIRMATION)
    asks = isinstance(confirmation, str) and CONFIRMATION in properties_of(tool.input_schema)
    message = members.get("message")
    return {
        "title": tool.title,
        "message": message if isinstance(message, str) and message else _("Done."),
        "confirm": write_arguments({**rendered.arguments, CONFIRMATION: confirmation})
        if asks
        else None,
        "detail": DETAIL,
    }
