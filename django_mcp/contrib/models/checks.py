"""System checks of the `ModelTools` classes that a site registered."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ImproperlyConfigured

from django_mcp.contrib.models.tools import registered_tools

__all__: list[str] = []


@register("django_mcp", Tags.models, Tags.security)
def check_model_tools(**_kwargs: Any) -> list[CheckMessage]:
    """M001 to M006: a class makes no tools, since its options are wrong."""
    messages: list[CheckMessage] = []
    # A setting that cannot be read ends it, since E001 reports that.
    with suppress(ImproperlyConfigured):
        for tools in registered_tools():
            for fault in tools.find_faults():
                message = f"{tools.class_name} makes no tools: {fault.text}."
                messages.append(Error(message, hint=fault.hint, id=fault.id))
    return messages
