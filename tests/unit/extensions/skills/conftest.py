"""Folders with skills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from django_mcp import MCPServer


def write_skill(
    root: Path,
    path: str,
    body: str = "Do it.",
    description: str = "Do a thing",
    files: Mapping[str, Any] | None = None,
) -> Path:
    """Write a skill below a folder, with further files such as `{"a/b.txt": content}`."""
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    front = f"---\nname: {folder.name}\ndescription: {description}\n---\n"
    (folder / "SKILL.md").write_bytes(f"{front}\n{body}\n".encode())
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    root.mkdir()
    return root


@pytest.fixture
def make_server(root: Path) -> Iterator[Callable[..., MCPServer]]:
    """Make servers of the skills below `root`."""
    made: list[MCPServer] = []

    def make(name: str = "skilled", **options: Any) -> MCPServer:
        made.append(MCPServer(name, **{"public": True, "skills_dirs": [root], **options}))
        return made[-1]

    yield make
    # Checks look at all servers that are left.
    for server in made:
        server._given["skills_dirs"] = ()
        server._given["skills_permissions"] = None
        server.forget_settings()
        for uri in list(server.registry.resources):
            server.remove_resource(uri)
