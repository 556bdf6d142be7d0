"""The public methods of servers, contexts and test clients carry their own names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_mcp import Context, MCPServer
from django_mcp.test import AsyncMCPClient, MCPClient

METHODS = [MCPServer, Context, AsyncMCPClient, MCPClient]
PRIVATE = re.compile(r"\b(?:_\w+|Made|P\.\w+)")


def find_methods(cls: type) -> Iterator[tuple[str, type, Callable[..., Any]]]:
    """Yield the public methods of a class, each with the class that has it."""
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        method = getattr(method, "__func__", method)
        if not name.startswith("_") and inspect.isfunction(method):
            yield name, next(each for each in cls.__mro__ if name in vars(each)), method


@pytest.mark.parametrize("cls", METHODS)
def test_a_public_method_has_the_name_of_its_attribute(cls: type):
    found = [(name, owner.__qualname__, method) for name, owner, method in find_methods(cls)]

    names = {name: (method.__name__, method.__qualname__) for name, _, method in found}
    assert names == {name: (name, f"{owner}.{name}") for name, owner, _ in found}
    assert [owner for _, owner, _ in found if owner.startswith("_")] == []


@pytest.mark.parametrize("cls", METHODS)
def test_no_annotation_of_a_public_method_is_private(cls: type):
    private = [
        f"{name}{shown}"
        for name, _, method in find_methods(cls)
        for shown in [inspect.signature(method)]
        for annotation in [
            shown.return_annotation,
            *(each.annotation for each in shown.parameters.values()),
        ]
        if annotation is not inspect.Parameter.empty and PRIVATE.search(str(annotation))
    ]

    assert private == []


def test_a_method_that_publishes_shows_what_it_returns():
    methods = {
        MCPServer.notify_resource_updated: "Notify subscribers",
        MCPServer.anotify_resource_updated: "Do as `notify_resource_updated` does",
    }
    for method, text in methods.items():
        shown = inspect.signature(method)
        assert shown.return_annotation == "int | None"
        assert list(shown.parameters) == ["self", "uri", "using"]
        assert (inspect.getdoc(method) or "").startswith(text)


def test_a_shortcut_of_log_has_all_its_parameters_but_the_level():
    for method in (Context.warning, Context.awarning):
        shown = inspect.signature(method)
        assert list(shown.parameters) == ["self", "data", "logger"]
        assert shown.return_annotation == "None"


def test_a_wrong_call_names_the_public_method():
    with pytest.raises(TypeError, match=r"NotifyMethods\.notify_resource_updated\(\) takes 2"):
        MCPServer("named").notify_resource_updated("a://b", "default")  # type: ignore[call-arg]
