"""The configuration files of the recipes are complete, and have known instructions."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.support.doc_blocks import Block
from tests.support.recipes import FILES, UNITS

INSTRUCTIONS = {"FROM", "WORKDIR", "ENV", "COPY", "RUN", "USER", "EXPOSE", "HEALTHCHECK", "CMD"}


def test_the_dockerfile_has_known_instructions():
    text = FILES["Dockerfile"].text.replace("\\\n", " ")
    names = [line.split()[0] for line in text.splitlines()]

    assert set(names) == INSTRUCTIONS
    for line in text.splitlines():
        if line.startswith("CMD"):
            assert json.loads(line.removeprefix("CMD"))
        if line.startswith("HEALTHCHECK"):
            program = json.loads(line.partition("CMD")[2])
            compile(program[2], "HEALTHCHECK", "exec")


def test_compose_starts_workers_after_the_migration():
    found = yaml.safe_load(FILES["compose.yaml"].text)

    services = found["services"]
    assert services["web"]["depends_on"]["migrate"] == {
        "condition": "service_completed_successfully"
    }
    for service in services.values():
        assert set(service.get("depends_on", [])) <= set(services)
        assert ("build" in service) != ("image" in service)
    assert set(found["volumes"]) == {"db"}


@pytest.mark.parametrize("block", FILES.values(), ids=str)
def test_every_file_is_checked(block: Block):
    checked = {"/etc/nginx/conf.d/mysite.conf", "Dockerfile", "compose.yaml", *UNITS}
    assert block.file in checked
