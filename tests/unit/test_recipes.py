"""The configuration files of the recipes are complete, and have known instructions."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import yaml

from django_mcp.health.conditions import parse_condition
from django_mcp.management.commands.mcp_health import Command
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


def health_commands() -> list[list[str]]:
    """Return the arguments of `mcp_health` in the recipes, as its programs read them."""
    (line,) = re.findall(
        r"^ExecStart=(.*)", FILES["/etc/systemd/system/mysite-health.service"].text, re.MULTILINE
    )
    job = yaml.safe_load(FILES["health.yaml"].text)
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    commands = [shlex.split(line.replace("%%", "%")), container["command"]]
    return [command[command.index("mcp_health") + 1 :] for command in commands]


@pytest.mark.parametrize("arguments", health_commands())
def test_the_conditions_of_the_recipes_are_known(arguments: list[str]):
    options = Command().create_parser("manage.py", "mcp_health").parse_args(arguments)

    assert options.alert
    assert [parse_condition(text).name for text in options.fail_on][:2] == ["errors", "p95"]


@pytest.mark.parametrize("block", FILES.values(), ids=str)
def test_every_file_is_checked(block: Block):
    checked = {"/etc/nginx/conf.d/mysite.conf", "Dockerfile", "compose.yaml", "health.yaml", *UNITS}
    assert block.file in checked
