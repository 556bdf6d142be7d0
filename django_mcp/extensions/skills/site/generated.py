"""The decorator of skills that a function generates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from django_mcp.extensions.skills.core.register import register_generated
from django_mcp.protocol.json import present
from django_mcp.registry.access import Permission
from django_mcp.servers import MCPServer, choose_server

F = TypeVar("F", bound=Callable[..., Any])


def skill(
    path: str,
    *,
    description: str | None = None,
    permission: Permission = None,
    scopes: str | Sequence[str] | None = None,
    license: str | None = None,  # noqa: A002 - as front matter has it
    compatibility: str | None = None,
    metadata: Mapping[str, str] | None = None,
    allowed_tools: Sequence[str] | None = None,
    server: MCPServer | None = None,
) -> Callable[[F], F]:
    """Register a function as a skill, whose instructions it returns for each read.

    The function may take what a resource without arguments takes, such as `ctx`, and returns the text below the
    front matter. Hosts cannot verify such a skill, and some load none, so prefer a folder where the text is the same
    for everybody.

    Args:
        path: such as `"reports/daily"`; its last part is the name.
        description: what it does and when to use it, up to 1024 characters; by default the docstring.
        permission: hides it from users without it; by default the server's.
        scopes: OAuth scopes that a token needs to read it.
        license, compatibility, metadata, allowed_tools: further front matter.
        server: by default the default server.

    Raises:
        RegistrationError: the path or the front matter is wrong.
    """

    def register(function: F) -> F:
        text = inspect.getdoc(function) if description is None else description
        front_matter = present(
            description=" ".join((text or "").split()),
            license=license,
            compatibility=compatibility,
            metadata=None if metadata is None else dict(metadata),
        )
        if allowed_tools is not None:
            front_matter["allowed-tools"] = list(allowed_tools)
        register_generated(
            choose_server(server),
            path,
            function,
            front_matter=front_matter,
            permission=permission,
            scopes=scopes,
        )
        return function

    return register
