"""What a part of the package imports, and what importing it loads; these in a fresh interpreter each."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT, code_strings, shown, source_files, tree_of
from tests.benchmarks.startup import write_site

SLOW = {"channels", "daphne", "jsonschema", "jsonschema_rs", "pydantic", "django.db", "uvicorn"}
LATE = {
    "django_mcp.admin.reports",
    "django_mcp.admin.connect",
    "django_mcp.admin.live_rows",
    "django_mcp.admin.try_it",
    "django_mcp.auth.authenticators",
    "django_mcp.checks.access",
    "django_mcp.checks.site",
    "django_mcp.endpoints.mounts",
    "django_mcp.protocol.message_schemas",
    "django_mcp.server.dispatch",
    "django_mcp.transports",
    "django_mcp.urls",
    "channels.generic",
    "importlib.metadata",
    "jsonschema",
    "pydantic",
    "pydantic_core",
    "referencing",
    "ssl",
    "urllib.request",
}
"""What a site with the app needs for its first request, for its checks or in a page of the admin."""

INTEGRATED = {
    "celery",
    "django_filters",
    "django_tasks",
    "drf_spectacular",
    "jwt",
    "ninja",
    "oauth2_provider",
    "oauthlib",
    "rest_framework",
}
"""The packages that `django_mcp.contrib` and the runners of tasks integrate."""

FRAMEWORKS = {"asgiref", "channels", "daphne", "django", "oauth2_provider", "rest_framework"}


def loaded_by(code: str, **variables: str) -> set[str]:
    """Return the modules that a fresh interpreter without Django settings has after `code`."""
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    environment |= variables
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


def test_importing_the_package_loads_only_itself():
    loaded = loaded_by("import django_mcp")

    assert {name for name in loaded if name.startswith("django_mcp")} == {"django_mcp"}
    assert loaded & (SLOW | FRAMEWORKS) == set()


def test_importing_the_decorators_loads_no_models_or_schema_library():
    loaded = loaded_by(
        "from django_mcp import Context, MCPServer, completion, prompt, resource, tool"
    )

    assert loaded & SLOW == set()


def test_public_names_do_not_load_dispatch_modules():
    """A process that registers and does not serve, such as a migration, does not pay for it."""
    loaded = loaded_by(
        "import os\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\n"
        "import django_mcp\n"
        "for name in django_mcp.__all__: getattr(django_mcp, name)"
    )

    assert "django_mcp.server.server" in loaded
    assert loaded & {"django_mcp.server.dispatch", "django_mcp.server.methods", *SLOW} == set()


def loaded_by_site(folder: Path, code: str, settings: str = "with_app") -> set[str]:
    """Return the modules that the site of the benchmark has after its setup and `code`."""
    return loaded_by(
        f"import django\ndjango.setup()\n{code}",
        PYTHONPATH=os.pathsep.join([str(ROOT), str(folder)]),
        DJANGO_SETTINGS_MODULE=settings,
    )


def test_site_startup_loads_only_registration_modules(tmp_path: Path):
    write_site(tmp_path)

    without, whole = (loaded_by_site(tmp_path, "", each) for each in ("without_app", "with_app"))

    assert {"django_mcp.admin.calls", "startup_shop.mcp"} <= whole
    assert (whole - without) & LATE == set()


@pytest.mark.parametrize(
    "code",
    [
        (
            "from django.core.asgi import get_asgi_application\n"
            "from django_mcp.asgi import django_mcp_application\n"
            "django_mcp_application(get_asgi_application())"
        ),
        "from django_mcp import default_server\ndefault_server.list_tools()",
    ],
    ids=["the ASGI application", "the first request"],
)
def test_modules_needed_by_a_call_are_preloaded(tmp_path: Path, code: str):
    write_site(tmp_path)

    assert "pydantic" in loaded_by_site(tmp_path, code)


@pytest.mark.parametrize("layer", ["protocol", "registry", "server"])
def test_the_lower_layers_run_without_django(layer: str):
    files = [path.relative_to(PACKAGE.parent) for path in (PACKAGE / layer).rglob("*.py")]
    modules = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files]

    loaded = loaded_by("\n".join(f"import {module}" for module in modules))

    assert loaded & FRAMEWORKS == set()


@pytest.mark.parametrize("layer", ["protocol", "registry", "server", "sessions/core"])
def test_the_lower_layers_name_no_module_of_django(layer: str):
    files = sorted((PACKAGE / layer).rglob("*.py"))

    named = [
        (shown(path), text)
        for path in files
        for _line, text in code_strings(tree_of(path))
        if re.fullmatch(r"django\.[\w.]*", text)
    ]
    assert files
    assert named == []


def test_only_contrib_and_runners_of_tasks_import_the_packages_that_they_integrate():
    """Imports in functions and for types count as well."""
    importing = set()
    for path in source_files():
        for node in ast.walk(tree_of(path)):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            if {(name or "").partition(".")[0] for name in names} & INTEGRATED:
                importing.add(shown(path))

    assert "django_mcp/contrib/oauth/revocation.py" in importing
    others = {each for each in importing if not each.startswith("django_mcp/contrib/")}
    runners = "django_mcp/extensions/tasks"
    assert others <= {f"{runners}/celery.py", f"{runners}/django_tasks.py"}


def test_tests_of_the_checks_ask_for_the_checks_of_the_package():
    """All checks of Django together need a database from Django 6.1 on, which most tests have not."""
    found = [
        shown(path)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__) and "run_checks()" in path.read_text()
    ]

    assert found == []
