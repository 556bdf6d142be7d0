"""Templates of pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

PAGE = """{% load mcp_apps i18n %}{% mcp_app title=_("Cancel") %}
<h1 data-mcp-text="month"></h1><div data-mcp-result></div>{% endmcp_app %}"""
FRAGMENT = """{% for row in result.rows %}<p>{{ row }}</p>{% endfor %}"""


@pytest.fixture(autouse=True)
def templates(settings: Any, tmp_path: Path) -> Path:
    """The folder with the templates of the tests."""
    folder = tmp_path / "templates" / "shop"
    folder.mkdir(parents=True)
    (folder / "sales.html").write_text(PAGE)
    (folder / "rows.html").write_text(FRAGMENT)
    settings.TEMPLATES = [{**engine, "DIRS": [str(folder.parent)]} for engine in settings.TEMPLATES]
    return folder
