"""What importing this layer costs."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import django_mcp.registry.decorators
import django_mcp.registry.registry
print(*(name for name in sys.argv[1:] if name in sys.modules))
"""


@pytest.mark.parametrize(
    "modules",
    [
        ["pydantic", "pydantic_core", "jsonschema", "jsonschema_rs", "referencing"],
        ["docstring_parser"],
        ["django", "channels", "asgiref"],
    ],
)
def test_importing_the_registry_does_not_import(modules: list[str]):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *modules], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == []
