"""Find the folders with skills of a server, as those of templates are found, and register what is in them.

A process reads them once, so what it says of a skill and what it serves agree as long as it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from django_mcp.extensions.skills.core.folders import read_skills
from django_mcp.extensions.skills.core.index import skill_of
from django_mcp.extensions.skills.core.register import register_folder
from django_mcp.log import logger
from django_mcp.registry.access import Permission
from django_mcp.servers import MCPServer

FOLDER = "skills"
"""Of an app."""


class Root(NamedTuple):
    """A folder with skills, and the module that they count as part of; `is_of_app` tells whether it is an app's."""

    path: Path
    module: str
    is_of_app: bool


def find_roots(server: MCPServer) -> Iterator[Root]:
    """Yield the folders with the skills of a server: those of its settings, then those of the apps that have one."""
    for given in server.options.skills_dirs:
        yield Root(Path(given), FOLDER, is_of_app=False)
    if server.is_default:
        for config in apps.get_app_configs():
            path = Path(config.path, FOLDER)
            if path.is_dir():
                yield Root(path, f"{config.name}.{FOLDER}", is_of_app=True)


def register(server: MCPServer) -> None:
    """Register the skills in folders, in place of those that were registered before."""
    for uri, entry in list(server._registry.registered["resources"].items()):
        skill = skill_of(entry)
        if skill is not None and skill.files is not None:
            server.remove_resource(uri)
    try:
        permissions = server.options.skills_permissions or {}
        server._find_extensions()
    except (ImproperlyConfigured, ValueError, TypeError):
        # The checks report it, and a server with a wrong setting or extension serves nothing.
        return
    for root in find_roots(server):
        found = read_skills(root.path)
        for problem in found.problems:
            logger.warning("A skill is not served. %s: %s", problem.place, problem.text)
        for skill in found.skills:
            if skill.uri in server._registry.registered["resources"]:
                logger.warning(
                    "The skill in %s is not served, since another has its URI %s",
                    skill.folder,
                    skill.uri,
                )
                continue
            permission = find_permission(permissions, skill.path)
            register_folder(server, skill, permission=permission, module=root.module)


def find_permission(permissions: Mapping[str, Permission], path: str) -> Permission:
    """Return the permission of the longest path that a skill is at or below; None: that of the server."""
    while path:
        if path in permissions:
            return permissions[path]
        path = path.rpartition("/")[0]
    return None
