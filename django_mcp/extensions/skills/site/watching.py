"""Have the development server start again when a file of a skill changes, as it does for code."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.autoreload import BaseReloader, autoreload_started

from django_mcp.extensions.skills.site.registration import find_roots
from django_mcp.servers import all_servers


def watch() -> None:
    """Watch the folders with skills, if this process watches files at all."""
    autoreload_started.connect(_watch_folders, dispatch_uid="django_mcp.skills")


def _watch_folders(sender: BaseReloader, **_kwargs: Any) -> None:
    for server in all_servers():
        # The checks report a wrong setting.
        with suppress(ImproperlyConfigured):
            for root in find_roots(server):
                sender.watch_dir(root.path, "**/*")
