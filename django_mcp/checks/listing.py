"""System checks of what the directories of `DIRECTORIES` would refuse."""

from __future__ import annotations

from collections.abc import Iterator

from django.core import checks
from django.core.checks import CheckMessage, Info

from django_mcp.checks.declared import DIRECTORIES_TAG, check
from django_mcp.directories.rules import Objection, find_objections
from django_mcp.servers import MCPServer, all_servers


@check(DIRECTORIES_TAG, id="django_mcp.W019")
def check_listing() -> Iterator[CheckMessage]:
    """W019: a directory of `DIRECTORIES` would refuse the server."""
    for server, objection in _find_objections(is_for_people=False):
        yield checks.Warning(objection.text, hint=objection.fix, obj=server)


@check(DIRECTORIES_TAG, id="django_mcp.I009")
def check_review() -> Iterator[CheckMessage]:
    """I009: the reviewers of a directory of `DIRECTORIES` may object to a tool."""
    for server, objection in _find_objections(is_for_people=True):
        yield Info(objection.text, hint=objection.fix, obj=server)


def _find_objections(*, is_for_people: bool) -> Iterator[tuple[MCPServer, Objection]]:
    for server in all_servers():
        for directory in dict.fromkeys(server.options.directories):
            for objection in find_objections(server, directory):
                if objection.is_for_people is is_for_people:
                    yield server, objection
