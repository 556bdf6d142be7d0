"""The templates that the guide shows."""

from __future__ import annotations

from typing import Any

import pytest
from django.template import engines

from tests.support.doc_blocks import ROOT, blocks_of

SHOWN = [
    block.text
    for block in blocks_of(ROOT / "docs" / "howto" / "apps.md")
    if block.info == "text" and "{%" in block.text
]


def test_the_guide_shows_a_page_and_a_part_of_it():
    assert len(SHOWN) == 2


@pytest.mark.parametrize("template", SHOWN, ids=["page", "fragment"])
def test_a_template_of_the_guide_is_rendered(template: str):
    result: Any = {"rows": [{"product": "Teapot", "sold": 3}]}

    rendered = engines["django"].from_string(template).render({"result": result})

    assert "{%" not in rendered
    assert "data-mcp-result" in rendered or "Teapot: 3" in rendered
