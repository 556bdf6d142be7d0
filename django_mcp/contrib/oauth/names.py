"""Make names of clients safe to show."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from django_mcp.protocol.sanitize import mark_invisible

MAX_NAME = 80


def clean_name(name: str) -> str:
    """Return a name on one line, of at most `MAX_NAME` characters, without invisible ones.

    Those could reorder the text around them, or hide a part of it.
    """
    seen = mark_invisible(name, lambda char: " " if char.isspace() else "")
    line = " ".join(seen.split())
    return line if len(line) <= MAX_NAME else line[: MAX_NAME - 1].rstrip() + "…"


def describe_client(application: Any) -> dict[str, Any]:
    """Return what pages for users say of a client."""
    is_document = application.registration_source == "cimd"
    return {
        "client_id": application.client_id,
        "client_name": clean_name(application.name) or _("A client without a name"),
        # The client controls this address, while it can choose any name.
        "client_host": urlsplit(application.client_id).netloc if is_document else "",
        "is_self_registered": application.registration_source == "dcr",
        "known_since": application.created,
    }
