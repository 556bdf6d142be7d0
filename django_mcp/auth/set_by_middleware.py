"""The attributes that the site's middleware sets on requests, which those of calls may lack."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache

from django.conf import settings as site_settings
from django.utils.module_loading import import_string

from django_mcp.process import reset_on

_REQUESTS = frozenset(("request", "req"))
"""What the code of middleware calls a request."""

_OF_FRAMEWORK = ("django.", "django_mcp.")


@cache
def find_set_attributes() -> Mapping[str, str]:
    """Return the names of the attributes, with the path of the middleware that sets each.

    The code of the modules of the middleware is read, and not run. Django's own is left out.
    """
    found: dict[str, str] = {}
    for path in site_settings.MIDDLEWARE:
        if not path.startswith(_OF_FRAMEWORK):
            # What cannot be loaded or read tells nothing.
            with suppress(Exception):
                module = sys.modules[import_string(path).__module__]
                for name in _find_names(ast.parse(inspect.getsource(module))):
                    found.setdefault(name, path)
    return found


reset_on(find_set_attributes.cache_clear, settings=("MIDDLEWARE",))


def _find_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in _REQUESTS:
                yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            match node.args:
                case [ast.Name(id=given), ast.Constant(value=str(name)), _] if given in _REQUESTS:
                    yield name
