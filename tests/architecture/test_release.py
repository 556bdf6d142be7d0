"""Release metadata: extras, versions of Python, the changelog and the workflows."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import Any

import pytest
import yaml

from tests.architecture.sources import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CI = (ROOT / ".ci" / "run").read_text()
STEPS = set(re.search(r'^STEPS="(.*)"$', CI, re.MULTILINE)[1].split())  # type: ignore[index]
CHANGELOG = (ROOT / "docs" / "changelog.md").read_text()


def test_readme_lists_every_extra():
    table = (ROOT / "README.md").read_text().split("| Extra | Installs |\n")[1].split("\n\n")[0]

    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == set(
        PROJECT["optional-dependencies"]
    )


def test_ci_runs_each_python_version_in_the_classifiers():
    classified = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))

    assert classified == re.findall(r"=\$\(find_python (3\.\d+)\)", CI)


def test_no_python_version_is_admitted_that_ci_does_not_run():
    classified = re.findall(r"Python :: 3\.(\d+)", " ".join(PROJECT["classifiers"]))

    assert PROJECT["requires-python"] == f">=3.{classified[0]},<3.{int(classified[-1]) + 1}"


def test_ci_runs_each_django_version_in_the_classifiers():
    classified = re.findall(r"Django :: (\d+\.\d+)", " ".join(PROJECT["classifiers"]))
    dependencies = " ".join(PROJECT["dependencies"])
    # README's command installs the newest that Python 3.11 can have, and one set the oldest dependencies.
    oldest = re.findall(r"django>=(\d+\.\d+)", dependencies)

    assert classified == oldest + re.findall(r"matrix_leg .*'django>=(\d+\.\d+)", CI)
    assert f",<{classified[-1][:-1]}{int(classified[-1][-1]) + 1}," in dependencies


def test_the_changelog_follows_keep_a_changelog():
    assert CHANGELOG.startswith("# Changelog\n\nAll notable changes")
    versions = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    for version in versions[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version)
    kinds = re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def workflow(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows" / name).read_text())
    return found


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_workflows_have_no_secrets_and_minimal_permissions(name: str):
    assert "secrets." not in (ROOT / ".github/workflows" / name).read_text()
    assert workflow(name)["permissions"] == {"contents": "read"}


def test_the_workflow_runs_every_step():
    groups = workflow("ci.yml")["jobs"]["checks"]["strategy"]["matrix"]["steps"]

    assert {step for group in groups for step in group.split()} == STEPS


def test_the_release_runs_the_tests_with_the_services_of_ci():
    # With CI=true a test that needs one of them fails without it.
    services = workflow("ci.yml")["jobs"]["checks"]["services"]

    assert set(services) == {"postgres", "redis"}
    assert workflow("release.yml")["jobs"]["build"].get("services") == services


def test_only_the_publish_job_has_an_id_token():
    jobs = workflow("release.yml")["jobs"]

    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "permissions" not in jobs["build"]
    # YAML reads the key `on` as true.
    assert workflow("release.yml")[True] == {"push": {"tags": ["v*"]}}


@pytest.mark.parametrize("name", ["versions", "between", "served"])
def test_the_lists_of_the_matrix_name_what_is_there(name: str):
    (words,) = re.findall(rf"^{name}=\((.*?)\)$", CI, re.MULTILINE | re.DOTALL)

    command = f"ls -d {' '.join(words.split())}"
    found = subprocess.run(
        ["bash", "-c", command], check=False, cwd=ROOT, capture_output=True, text=True
    )

    assert (found.returncode, found.stderr) == (0, "")
