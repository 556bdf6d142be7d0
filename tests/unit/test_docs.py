"""Code blocks and links of README and docs are marked and well-formed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import checks_page, results_page, revisions_page, settings_page
from tests.support.doc_blocks import PAGES, ROOT, Block, all_blocks


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


OF_THE_SITE = {
    "docs/howto/api_keys.md": {"user"},
    "docs/howto/concurrency.md": {"DATABASES"},
    "docs/howto/from_python_sdk.md": {"api_router"},
    "docs/howto/ninja.md": {"CustomerToken", "StaffToken"},
    "docs/howto/oauth.md": {"INSTALLED_APPS"},
    "docs/quick_guide.md": {"INSTALLED_APPS"},
    "docs/howto/tasks.md": {"app"},
    "docs/howto/testing.md": {"staff_server"},
}
"""Names in the blocks of a page that stand for what a site has."""


def test_names_in_blocks_are_imported_or_defined(tmp_path: Path):
    for block in blocks("python", "python fragment"):
        copy = (tmp_path / block.page.relative_to(ROOT)).with_suffix(".py")
        copy.parent.mkdir(parents=True, exist_ok=True)
        with copy.open("a") as file:
            file.write(block.text)

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--isolated",
            "--select=F821",
            "--output-format=json",
            tmp_path,
        ],
        capture_output=True,
        check=False,
    )
    undefined: dict[str, set[str]] = {}
    for fault in json.loads(done.stdout):
        page = Path(fault["filename"]).relative_to(tmp_path).with_suffix(".md").as_posix()
        undefined.setdefault(page, set()).add(fault["message"].split("`")[1])

    assert undefined == OF_THE_SITE


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
