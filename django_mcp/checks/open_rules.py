"""System check of permission functions that let callers pass who did not sign in.

A function that does nothing but read attributes of its user is run with `AnonymousUser`. Others are not run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dis import get_instructions
from types import CodeType, FunctionType
from typing import Any

from django.apps import apps
from django.core import checks
from django.core.checks import CheckMessage, Tags

from django_mcp.checks.access import mounted_servers
from django_mcp.checks.declared import check, list_some
from django_mcp.registry.entries import Entry
from django_mcp.registry.problems import describe_source, is_of_framework

_HARMLESS = frozenset(("bool", "callable", "getattr", "hasattr", "isinstance", "len"))
"""Built-in functions that may be called, as nothing of the site's runs in them."""


@check(Tags.security, id="django_mcp.W057")
def check_open_rules() -> Iterator[CheckMessage]:
    """W057: a permission function of a public server lets callers pass who did not sign in."""
    if not apps.is_installed("django.contrib.auth"):
        return
    for server in mounted_servers():
        authentication = server.engine.authentication
        if authentication is not None and not authentication.is_public:
            continue
        needs = server.engine.derived.requirements
        open_rules: dict[str, list[str]] = {}
        for guarded, rules in needs.rules.items():
            # A check may refuse such callers, and scopes do. All rules have to hold.
            if not isinstance(guarded, Entry) or guarded.access.check or needs.scopes.get(guarded):
                continue
            functions = [rule for rule in rules if callable(rule) and _holds_for_anybody(rule)]
            if len(functions) == len(rules):
                for source in map(describe_source, functions):
                    open_rules.setdefault(source, []).append(guarded.name)
        for source, names in open_rules.items():
            yield checks.Warning(
                f"The permission {source} of the public MCP server {server.name!r} lets callers pass who did not sign "
                f"in: {list_some(names)}.",
                hint="Such a caller is an AnonymousUser, which is an object, not None. Ask for user.is_authenticated as "
                "well, or use permission=signed_in. If everybody may, say so with a function that returns True.",
            )


def _holds_for_anybody(rule: Callable[..., Any]) -> bool:
    if not isinstance(rule, FunctionType) or is_of_framework(rule):
        return False
    if not _only_reads_attributes(rule):
        return False
    try:
        return rule(_make_user()) is True
    except Exception:  # noqa: BLE001 - it is the site's code, and one that fails lets nobody pass
        return False


def _only_reads_attributes(function: FunctionType) -> bool:
    """Return whether a function looks at its argument, and at nothing else."""
    code = function.__code__
    instructions = list(get_instructions(code))
    looks = any(
        each.opname.startswith("LOAD_FAST") and code.co_varnames[0] in str(each.argval)
        for each in instructions
    )
    names = {each.argval for each in instructions if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return (
        looks
        and not code.co_freevars
        and names <= _HARMLESS
        and function.__globals__.keys().isdisjoint(names)
        and not any(isinstance(each, CodeType) for each in code.co_consts)
        and not any(map(_OTHER.search, (each.opname for each in instructions)))
    )


_OTHER = re.compile("IMPORT|STORE_|DELETE_|BACKWARD|ASYNC|YIELD|AWAIT")
"""Instructions that do something else, or might never end."""


def _make_user() -> Any:
    # Importing this module must not load models.
    from django.contrib.auth.models import AnonymousUser

    class Anonymous(AnonymousUser):
        """A user that asks no backend of the site."""

        def _refuse(self, *args: object, **kwargs: object) -> Any:
            raise PermissionError

        has_perm = has_perms = has_module_perms = _refuse
        ahas_perm = ahas_perms = ahas_module_perms = _refuse
        get_user_permissions = get_group_permissions = get_all_permissions = _refuse

    return Anonymous()
