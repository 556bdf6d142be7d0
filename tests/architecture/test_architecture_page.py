"""docs/architecture.md names files and folders that exist."""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:django_mcp|tests)/[\w/]*(?:\.py)?)`", PAGE)))
BARE = sorted(set(re.findall(r"`((?!django_mcp/|tests/)[\w/]+\.py)`", PAGE)))
MODULES = [path.relative_to(ROOT).as_posix() for path in (ROOT / "django_mcp").rglob("*.py")]


@pytest.mark.parametrize("name", NAMED)
def test_every_path_named_on_the_page_exists(name: str):
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", BARE)
def test_every_module_named_without_its_path_exists(name: str):
    assert any(module.endswith(f"/{name}") for module in MODULES)


def test_the_page_names_every_package_of_the_server():
    packages = [path.name for path in (ROOT / "django_mcp" / "server").iterdir() if path.is_dir()]

    missing = [name for name in packages if name != "__pycache__" and f"`{name}`" not in PAGE]
    assert missing == []
