"""The table of the protocol extensions that this package brings, each a package of its own.

To remove one, delete its folder and its line here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

EXTENSION_PACKAGES: tuple[str, ...] = (
    "django_mcp.extensions.apps",
    "django_mcp.extensions.cards",
    "django_mcp.extensions.skills",
    "django_mcp.extensions.tasks",
)


@cache
def load_parts(part: str) -> tuple[ModuleType, ...]:
    """Import a module of each extension, such as `core.extension`; those without it are left out.

    The rest of the package knows no extension by name. It loads these parts:

    - `core.extension`: `EXTENSION_CLASS` is the subclass of `Extension`. `in_memory(clock)` returns an object
      of it for a server without a site.
    - `site.extension`: `on_site(clock)` returns one for a server of a site.
    - `site.registration`: `register(server)` registers what depends on the whole site, again after settings have
      changed.
    - `site.tool_registration`: `prepare(server, function, options)` returns the function to register as a tool in
      place of another, `register_companion(server, entry)` registers a further tool that a tool needs, if it needs
      one, and `remove_companion(server, name)` removes that. What changes the tool itself is
      `Extension.complete_tool`.
    - `site.watching`: `watch()` has the development server start again when files change.
    - `site.surface`: `make_describer(server, sees)` returns a function of an entry, which returns what a snapshot
      says of it beyond its wire form.
    - `site.drafting`: `draft(path, server_name, tools)` returns a file, its path and its text, for a person to edit.
    - `site.models`: the tables.
    - `site.pruning`: `find_expired()` returns the rows that `mcp_prune` deletes, and `settle(is_dry_run)`
      the lines that it prints about other work.
    - `site.health`: `count_lost(since)` returns how many calls that outlive their request were lost since then with
      their worker, or None if it cannot tell.
    - `admin`: `TABS` and `OF_SESSION`, tabs of the admin and links of the page of a session, and
      `find_badges(entry)`, which returns the badges of an entry in the catalogue. `CLIENT_EXTENSIONS`, which it may
      lack, is what the client declares with which entries are tried, and `FOLLOWING`, which it may lack, the
      methods with which that goes on with a call.
    - `admin.sections`: `find_section(page, request, server, entry)` returns a section of the page of an entry, or
      None, and `VIEWS` the views that it needs, by name. With a `caller`, the entry is tried as that user.
    - `admin.pages`: `PAGES`, the models with their pages.
    - `checks`: system checks, declared with `@check()`.
    - `site.tags`: a template `Library`, whose tags are those of `{% load mcp_apps %}`.
    - `site.urls`: `patterns_of(server)` returns URL patterns beside the endpoint of a server, and `root_patterns()`
      those at the root of the site.
    - `testing`: `check_result(client, method, result)` of the test client, and functions by which its methods of
      the same names work: `call_as_task`, `read_app`, `assert_app`, `find_confirmed`, `list_skills` and
      `assert_skill_verifies`.
    """
    names = (f"{package}.{part}" for package in EXTENSION_PACKAGES)
    return tuple(import_module(name) for name in names if _exists(name))


def _exists(name: str) -> bool:
    parent, _, _ = name.rpartition(".")
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError as error:
        # The extension has no such subpackage. An import that fails inside of one is an error.
        if error.name is None or not (parent == error.name or parent.startswith(f"{error.name}.")):
            raise
        return False
