"""The Sphinx configuration of the documentation site.

`sphinx-build -W docs SITE` builds it. The pages under `reference/python` are written here, one for
each public module, from the docstrings.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import django
from django.conf import settings

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))
settings.configure(
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django_mcp",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    USE_TZ=True,
)
django.setup()

from django.contrib.auth.base_user import AbstractBaseUser  # noqa: E402
from django.contrib.auth.models import AnonymousUser  # noqa: E402
from django.http import HttpRequest  # noqa: E402

import django_mcp  # noqa: E402
from django_mcp import context  # noqa: E402
from django_mcp.auth.principal import AuthInfo  # noqa: E402

# Sphinx evaluates annotations, and this module imports these names for type checkers only.
vars(context).update(
    AbstractBaseUser=AbstractBaseUser,
    AnonymousUser=AnonymousUser,
    AuthInfo=AuthInfo,
    HttpRequest=HttpRequest,
)

MODULES = [
    "django_mcp",
    "django_mcp.asgi",
    "django_mcp.auth.authenticators",
    "django_mcp.auth.principal",
    "django_mcp.contrib.introspection",
    "django_mcp.contrib.jwt",
    "django_mcp.inprocess",
    "django_mcp.middleware",
    "django_mcp.models",
    "django_mcp.push",
    "django_mcp.signals",
    "django_mcp.test",
]

CONTEXT = """.. autoclass:: django_mcp.Context()
   :members:
   :inherited-members:
"""

project = "django-mcp-endpoints"
version = release = django_mcp.__version__
html_title = f"django_mcp {release}"
html_theme = "furo"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_external_toc"]
external_toc_path = "_toc.yml"
exclude_patterns = ["_build"]
myst_heading_anchors = 4
default_role = "literal"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"


def write_api_pages() -> None:
    """Write a page for each public module. Git does not track them."""
    folder = DOCS / "reference" / "python"
    folder.mkdir(exist_ok=True)
    for module in MODULES:
        lines = [
            module,
            "=" * len(module),
            "",
            f".. automodule:: {module}",
            "   :members:",
            "   :show-inheritance:",
            "",
        ]
        if module == "django_mcp":
            # The server creates contexts, so their constructor is not shown.
            lines[-1:] = ["   :exclude-members: Context", "", CONTEXT]
        else:
            # A name that two modules export has one description.
            names = set(vars(import_module(module)).get("__all__", ())) & set(django_mcp.__all__)
            lines[-1:] = [f"   :exclude-members: {', '.join(sorted(names))}", ""] if names else [""]
        (folder / f"{module}.rst").write_text("\n".join(lines))


write_api_pages()
