"""What importing a part of the package loads; each case in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.architecture.sources import PACKAGE, ROOT

SLOW = {"channels", "daphne", "jsonschema", "jsonschema_rs", "pydantic", "django.db", "uvicorn"}
FRAMEWORKS = {"asgiref", "channels", "daphne", "django", "oauth2_provider", "rest_framework"}


def loaded_by(code: str) -> set[str]:
    """Return the modules that a fresh interpreter without Django settings has after `code`."""
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_but_itself():
    loaded = loaded_by("import django_mcp")

    assert {name for name in loaded if name.startswith("django_mcp")} == {"django_mcp"}
    assert loaded & (SLOW | FRAMEWORKS) == set()


def test_taking_the_decorators_loads_no_models_and_no_schema_library():
    loaded = loaded_by(
        "from django_mcp import Context, MCPServer, completion, prompt, resource, tool"
    )

    assert loaded & SLOW == set()


def test_no_public_name_loads_what_only_answering_needs():
    """A process that registers and does not serve, such as a migration, does not pay for it."""
    loaded = loaded_by(
        "import os\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\n"
        "import django_mcp\n"
        "for name in django_mcp.__all__: getattr(django_mcp, name)"
    )

    assert "django_mcp.server.server" in loaded
    assert loaded & {"django_mcp.server.dispatch", "django_mcp.server.methods", *SLOW} == set()


@pytest.mark.parametrize("layer", ["protocol", "registry", "server"])
def test_the_lower_layers_run_without_django(layer: str):
    files = [path.relative_to(PACKAGE.parent) for path in (PACKAGE / layer).rglob("*.py")]
    modules = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files]

    loaded = loaded_by("\n".join(f"import {module}" for module in modules))

    assert loaded & FRAMEWORKS == set()
