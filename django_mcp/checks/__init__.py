"""System checks. docs/reference/checks.md lists them; `check --deploy` adds those with `deploy=True`.

Importing this registers them. Their modules are imported when they are run: a server's start does not run them.
"""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Tags, register

from django_mcp.checks.declared import Check, declared
from django_mcp.extension_packages import load_parts


def _runner(checks: list[Check]) -> Check:
    def run(**kwargs: Any) -> list[CheckMessage]:
        # Each adds its own checks when it is imported.
        from django_mcp.checks import (  # noqa: F401
            access,
            before_commit,
            cached,
            direct_calls,
            entries,
            frozen,
            headers,
            listing,
            middleware,
            misplaced_writes,
            nobodys,
            open_rules,
            owners,
            serving,
            site,
            transactions,
            unasked,
        )

        load_parts("checks")
        return [message for check in checks for message in check(**kwargs)]

    return run


for (_tags, _deploy), _found in declared.items():
    register(_runner(_found), "django_mcp", *_tags, deploy=_deploy)


@register(Tags.database)
def _check_database(**kwargs: Any) -> list[CheckMessage]:
    from django_mcp.checks.disabled import check_disabled
    from django_mcp.checks.migrated import check_migrated
    from django_mcp.checks.results import check_results

    each = (check_migrated, check_disabled, check_results)
    return [message for check in each for message in check(**kwargs)]
