"""The Sphinx configuration of the documentation site.

`sphinx-build -W docs SITE` builds it. The pages under `reference/python` are written here, one for
each public module, from the docstrings. A module that needs an extra has a page if the extra is
installed.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent
from typing import Any

import django
from django.conf import settings

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))
settings.configure(
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "oauth2_provider",
        "django_mcp",
        "django_mcp.contrib.oauth",
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
from django_mcp.inprocess import Environment  # noqa: E402
from django_mcp.protocol.sampling import SamplingOptions  # noqa: E402
from django_mcp.registry.options import (  # noqa: E402
    CommonOptions,
    ResourceOptions,
    TemplateOptions,
    ToolOptions,
)

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
    "django_mcp.contrib.drf",
    "django_mcp.contrib.introspection",
    "django_mcp.contrib.jwt",
    "django_mcp.contrib.modeladmin",
    "django_mcp.contrib.models",
    "django_mcp.contrib.ninja",
    "django_mcp.contrib.oauth",
    "django_mcp.contrib.oauth.examination",
    "django_mcp.extensions.tasks",
    "django_mcp.extensions.tasks.celery",
    "django_mcp.extensions.tasks.django_tasks",
    "django_mcp.inprocess",
    "django_mcp.middleware",
    "django_mcp.models",
    "django_mcp.push",
    "django_mcp.routing",
    "django_mcp.signals",
    "django_mcp.test",
]

PICKED = {
    "django_mcp.contrib.oauth.examination": "run",
    "django_mcp.extensions.tasks.celery": "CeleryRunner",
}
"""The public names of modules that have others beside them."""

INHERITING = {
    # The server creates contexts, so their constructor is not shown.
    "django_mcp": {"Context": "Context()", "MCPServer": "MCPServer"},
    "django_mcp.test": {"AsyncMCPClient": "AsyncMCPClient", "MCPClient": "MCPClient"},
}
"""Classes by module that have most of their methods from classes without a page."""

OPTIONS = {
    "django_mcp": [CommonOptions, ToolOptions, TemplateOptions, ResourceOptions, SamplingOptions],
    "django_mcp.inprocess": [Environment],
}
"""The keywords that methods of a module take as `**options` or `**how`."""

project = "django-mcp-endpoints"
version = release = django_mcp.__version__
html_title = f"django_mcp {release}"
html_theme = "furo"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_external_toc",
]
external_toc_path = "_toc.yml"
# The search shows pages that teach before those that list.
html_search_scorer = str(DOCS / "search_scorer.js")
exclude_patterns = ["_build"]
myst_heading_anchors = 4
default_role = "literal"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"


def write_api_pages() -> None:
    """Write a page for each public module. Git does not track them."""
    folder = DOCS / "reference" / "python"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in MODULES:
        try:
            module = import_module(name)
        except ImportError:
            continue
        (folder / f"{name}.rst").write_text("\n".join(_page_of(name, module)))


def _page_of(name: str, module: Any) -> Iterator[str]:
    inheriting, options = INHERITING.get(name, {}), OPTIONS.get(name, [])
    excluded = {*inheriting, *(each.__name__ for each in options if hasattr(module, each.__name__))}
    if name != "django_mcp":
        # A name that two modules export has one description.
        excluded |= set(getattr(module, "__all__", ())) & set(django_mcp.__all__)
    yield from (name, "=" * len(name), "")
    yield from (
        f".. automodule:: {name}",
        f"   :members: {PICKED.get(name, '')}",
        "   :show-inheritance:",
    )
    if excluded:
        yield f"   :exclude-members: {', '.join(sorted(excluded))}"
    yield ""
    for signature in inheriting.values():
        yield from (f".. autoclass:: {name}.{signature}", "   :members:", "   :inherited-members:")
        yield ""
    for each in options:
        yield from _options_of(each, options)


def _options_of(cls: Any, among: list[Any]) -> Iterator[str]:
    """Yield the description of a TypedDict, with the keys that no other one of them has given it."""
    parents = [each for each in among if each.__annotations__.keys() < cls.__annotations__.keys()]
    inherited = {key for each in parents for key in each.__annotations__}
    head, _, keys = cleandoc(cls.__doc__).partition("\n\n")
    texts = _texts_of(keys)
    # It is beside the names of another module.
    yield from (f".. py:class:: {cls.__name__}", f"   :module: {cls.__module__}", "")
    yield from (f"   {head}", "")
    if parents:
        parent = max(parents, key=lambda each: len(each.__annotations__))
        yield from (
            f"   It also has the keys of :py:class:`{parent.__module__}.{parent.__name__}`.",
            "",
        )
    for key, kind in cls.__annotations__.items():
        if key not in inherited:
            yield from (f"   .. py:attribute:: {key}", f"      :type: {kind.__forward_arg__}", "")
            text = texts.get(key, "")
            yield from (f"      {text[:1].upper()}{text[1:]}", "")


def _texts_of(keys: str) -> dict[str, str]:
    """Return what a docstring says of each key, below a heading such as `Keys:` or without one."""
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in dedent(re.sub(r"^[A-Z]\w+:\n", "", keys)).splitlines():
        start = re.match(r"([a-z_]+(?:, [a-z_]+)*): ", line)
        if start is not None:
            names = start[1].split(", ")
        for name in names:
            more = line.strip() if start is None else line[start.end() :]
            texts[name] = f"{texts.get(name, '')} {more}".strip()
    return texts


write_api_pages()
