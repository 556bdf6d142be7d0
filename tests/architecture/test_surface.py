"""The public attributes of `MCPServer` and `Context`: all are documented."""

from __future__ import annotations

import re

import pytest

import django_mcp
from tests.architecture.sources import ROOT

REFERENCE = "".join(
    (ROOT / "docs" / "reference" / f"{page}.md").read_text()
    for page in ("api", "context", "names", "transports")
    if (ROOT / "docs" / "reference" / f"{page}.md").exists()
)
TOLD = set(re.findall(r"`(?:server\.|ctx\.)?(\w+)", REFERENCE))


def find_names(cls: type) -> set[str]:
    """Return the public names of a class, those that are only annotated among them."""
    annotated = {name for each in cls.__mro__ for name in vars(each).get("__annotations__", {})}
    return {name for name in {*dir(cls), *annotated} if not name.startswith("_")}


@pytest.mark.parametrize("cls", [django_mcp.MCPServer, django_mcp.Context])
def test_public_attributes_of_a_class_are_documented(cls: type):
    assert (
        sorted(name for name in find_names(cls) if not {name, name.removeprefix("a")} & TOLD) == []
    )
