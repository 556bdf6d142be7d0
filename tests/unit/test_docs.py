"""Code blocks and links of README and docs are marked and well-formed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support import checks_page, results_page, revisions_page, settings_page
from tests.support.doc_blocks import PAGES, Block, all_blocks


def blocks(*kinds: str) -> list[Block]:
    return [block for block in all_blocks() if block.kind in kinds]


@pytest.mark.parametrize("block", all_blocks(), ids=str)
def test_every_code_block_declares_how_it_is_run(block: Block):
    assert block.kind is not None, f"{block}: nothing runs a block marked {block.info!r}"


@pytest.mark.parametrize("block", blocks("json", "json answer"), ids=str)
def test_json_blocks_are_valid_json(block: Block):
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("python fragment"), ids=str)
def test_fragments_are_valid_python(block: Block):
    compile(block.text, str(block), "exec")


def test_the_revisions_page_matches_the_records():
    assert revisions_page.PAGE.read_text() == revisions_page.page(), (
        "run python -m tests.support.revisions_page"
    )


def test_the_settings_page_matches_their_declarations():
    assert settings_page.PAGE.read_text() == settings_page.page(), (
        "run python -m tests.support.settings_page"
    )


def test_the_table_of_checks_matches_the_code():
    assert checks_page.PAGE.read_text() == checks_page.page(), (
        "run python -m tests.support.checks_page"
    )


def test_the_results_page_matches_the_results_of_each_revision():
    assert results_page.PAGE.read_text() == results_page.page(), (
        "run python -m tests.support.results_page"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_resolve(page: Path):
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)", page.read_text())

    assert [target for target in targets if not (page.parent / target).exists()] == []
