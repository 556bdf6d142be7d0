"""The configuration files shown on the page of recipes."""

from __future__ import annotations

from tests.support.doc_blocks import ROOT, blocks_of

PAGE = ROOT / "docs" / "howto" / "recipes.md"
FILES = {block.file: block for block in blocks_of(PAGE) if block.kind == "configuration"}
UNITS = [name for name in FILES if name.startswith("/etc/systemd/system/")]
