"""The logger of this package: a site configures all of it by the name `django_mcp`."""

from __future__ import annotations

import logging

logger = logging.getLogger("django_mcp")
