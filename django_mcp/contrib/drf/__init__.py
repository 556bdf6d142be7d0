"""Django REST framework: its authentication classes, and its views as tools. Needs the extra `drf`.

Settings can import it.
"""

from __future__ import annotations

from django_mcp.contrib.drf.authenticator import DRFAuthenticator
from django_mcp.contrib.drf.views import viewset_tools

__all__ = ["DRFAuthenticator", "viewset_tools"]
