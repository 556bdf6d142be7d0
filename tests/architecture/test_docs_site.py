"""The navigation of the documentation site has the pages that the index lists, in the same groups."""

from __future__ import annotations

import re

import yaml

from tests.architecture.sources import ROOT

DOCS = ROOT / "docs"


def groups_of_index() -> dict[str, list[str]]:
    guides = (DOCS / "index.md").read_text().split("\n## How-to guides\n")[1].split("\n## ")[0]
    parts = re.split(r"^(\w[\w ]*):$", guides, flags=re.MULTILINE)[1:]
    return {
        name: re.findall(r"^- .*?\[.*?\]\((.*?)\.md\)", text, flags=re.MULTILINE)
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def groups_of_navigation() -> dict[str, list[str]]:
    return {
        tree["caption"]: [entry.get("file", entry.get("glob")) for entry in tree["entries"]]
        for tree in yaml.safe_load((DOCS / "_toc.yml").read_text())["subtrees"]
    }


def test_how_to_guides_are_grouped_as_in_the_index():
    navigation = groups_of_navigation()

    assert {name: navigation.get(name) for name in groups_of_index()} == groups_of_index()


def test_each_how_to_guide_is_in_one_group():
    guides = [page for pages in groups_of_navigation().values() for page in pages]

    files = sorted(f"howto/{path.stem}" for path in (DOCS / "howto").glob("*.md"))
    assert sorted(page for page in guides if page.startswith("howto/")) == files
