"""The check of installed versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_mcp.checks.site import check_other_distributions, check_versions

CLASH = (
    "django-mcp installs a package django_mcp too, and overwrites files of django-mcp-endpoints."
)
REMEDY = "pip uninstall django-mcp django-mcp-endpoints, then install django-mcp-endpoints again."

DJANGO = "django!=6.0,!=6.0.1,!=6.1.2,<6.2,>=5.2.19"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Add the metadata of a distribution, which is found before the one that is installed."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, version: str, *requirements: str) -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {each}" for each in requirements]
        # A description may have lines that look like headers.
        text = "\n".join([*lines, "", "# Description", "", "Version: 0.1", ""])
        (folder / "METADATA").write_text(text)

    return install


@pytest.mark.parametrize(
    ("requirement", "version", "is_right"),
    [
        (DJANGO, "5.2.18", False),
        (DJANGO, "5.2.19", True),
        (DJANGO, "5.2.20", True),
        (DJANGO, "6.0", False),
        (DJANGO, "6.0.0", False),
        (DJANGO, "6.0.1", False),
        (DJANGO, "6.0.10", True),
        (DJANGO, "6.1.2", False),
        (DJANGO, "6.1.3", True),
        # An upper bound says nothing about vulnerabilities.
        (DJANGO, "7.0", True),
        ("daphne<5,>=4.2.2; extra == 'daphne'", "4.1.2", False),
        ("pyjwt[crypto]<3,>=2.13; extra == 'jwt'", "2.12.1", False),
        ("pyjwt[crypto]<3,>=2.13; extra == 'jwt'", "2.13.0", True),
        ("gunicorn<28,>=23; extra == 'dev'", "20.0", True),
        ("asgiref (>=3.11.1,<4)", "3.9.0", False),
        ("asgiref (>=3.11.1,<4)", "3.12", True),
        ("asgiref (>=3.11.1,<4)", "not a version", False),
    ],
)
def test_a_release_with_known_vulnerabilities_is_reported(
    requirement: str, version: str, is_right: bool, install: Callable[..., None]
):
    install("django-mcp-endpoints", "1.0", requirement)
    install(re.match(r"[a-z]+", requirement)[0], version)  # type: ignore[index]

    assert (not check_versions()) is is_right


def test_packages_that_are_not_installed_are_not_reported(install: Callable[..., None]):
    install("django-mcp-endpoints", "1.0", "no-such-thing>=1", "nor-this>=4.2.2")

    assert check_versions() == []


def test_the_check_names_the_version_and_what_to_install(install: Callable[..., None]):
    install("django-mcp-endpoints", "1.0", "no-such-thing>=1", DJANGO)
    install("django", "5.2.1")

    (found,) = check_versions()

    assert found.id == "django_mcp.W013"
    assert found.msg.startswith("django 5.2.1 is installed")
    assert found.hint == "Install django !=6.0,!=6.0.1,!=6.1.2,<6.2,>=5.2.19."


@pytest.mark.parametrize(
    ("file", "messages"),
    [
        ("django_mcp/__init__.py", [("django_mcp.E012", CLASH, REMEDY)]),
        ("django_mcp_other/__init__.py", []),
    ],
)
def test_another_distribution_with_this_package_is_reported(
    file: str, messages: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "django_mcp-0.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: django-mcp\nVersion: 0.5\n")
    (folder / "RECORD").write_text(f"{file},sha256=abc,10\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert [(each.id, each.msg, each.hint) for each in check_other_distributions()] == messages
