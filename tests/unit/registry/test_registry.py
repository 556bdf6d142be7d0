"""The registry: order, duplicates, changes during iteration, and listeners."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp.registry.problems import RegistrationError
from tests.support.registry import Site

KINDS: dict[str, tuple[Callable[[Site, str], Any], Callable[[Site, str], bool], str, str]] = {
    "tool": (
        lambda site, key: site.register_tool(first, name=key),
        lambda site, key: site.remove_tool(key),
        "tools",
        "tools",
    ),
    "prompt": (
        lambda site, key: site.register_prompt(first, name=key),
        lambda site, key: site.remove_prompt(key),
        "prompts",
        "prompts",
    ),
    "resource": (
        lambda site, key: site.register_resource(f"x://{key}", first),
        lambda site, key: site.remove_resource(f"x://{key}"),
        "resources",
        "resources",
    ),
    "resource template": (
        lambda site, key: site.register_resource(f"x://{key}{{?a}}", templated),
        lambda site, key: site.remove_resource(f"x://{key}{{?a}}"),
        "templates",
        "resources",
    ),
}


def first() -> str:
    return ""


def templated(a: str = "") -> str:
    return a


@pytest.fixture(params=KINDS, ids=lambda kind: kind)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def test_entries_keep_the_order_of_registration(site: Site, kind: str):
    add, _, attribute, _ = KINDS[kind]

    for key in ("c", "a", "b"):
        add(site, key)

    assert [key.strip("x:/{?a}") or "a" for key in getattr(site.registry, attribute)] == [
        "c",
        "a",
        "b",
    ]


def test_a_duplicate_is_refused_naming_both(site: Site, kind: str):
    add, _, attribute, _ = KINDS[kind]
    add(site, "one")

    with pytest.raises(RegistrationError, match=f"there is a {kind} ") as refusal:
        add(site, "one")

    assert str(refusal.value).count("test_registry.py") == 2
    assert len(getattr(site.registry, attribute)) == 1


def test_remove_returns_whether_the_entry_existed(site: Site, kind: str):
    add, remove, attribute, _ = KINDS[kind]
    add(site, "one")

    assert remove(site, "one") is True
    assert remove(site, "one") is False
    assert not getattr(site.registry, attribute)
    add(site, "one")


def test_each_change_increments_the_version_and_notifies(site: Site, kind: str):
    add, remove, _, told = KINDS[kind]
    heard: list[str] = []
    site.registry.on_change(heard.append)

    versions = [site.registry.version]
    for change in (add, remove, remove):
        change(site, "one")
        versions.append(site.registry.version)

    assert versions[0] < versions[1] < versions[2] == versions[3]
    assert heard == [told, told]


def test_a_change_is_visible_when_listeners_are_called(site: Site):
    seen: list[bool] = []
    site.registry.on_change(lambda kind: seen.append("one" in site.registry.tools))

    site.register_tool(first, name="one")
    site.remove_tool("one")

    assert seen == [True, False]


def test_iteration_uses_a_snapshot(site: Site, kind: str):
    add, remove, attribute, _ = KINDS[kind]
    for key in ("a", "b"):
        add(site, key)
    entries = iter(getattr(site.registry, attribute))

    next(entries)
    remove(site, "a")
    add(site, "c")

    assert len(list(entries)) == 1


def test_the_mappings_cannot_be_changed_from_outside(site: Site, kind: str):
    with pytest.raises(TypeError):
        getattr(site.registry, KINDS[kind][2])["x"] = None


def test_many_threads_may_register(site: Site):
    barrier = threading.Barrier(8)

    def register(number: int) -> None:
        barrier.wait(5)
        for index in range(20):
            site.register_tool(first, name=f"t{number}.{index}")
            site.register_tool(first, name=f"gone{number}.{index}")
            site.remove_tool(f"gone{number}.{index}")

    threads = [threading.Thread(target=register, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(site.registry.tools) == 160
    assert site.registry.version == 480


def test_a_rejected_entry_leaves_nothing_behind(site: Site):
    with pytest.raises(RegistrationError):
        site.register_tool(first, name="a b")

    assert site.registry.version == 0
    assert not site.registry.tools


def test_a_disabled_entry_is_treated_as_missing(site: Site):
    @site.tool
    def one() -> str:
        return ""

    @site.tool
    def two() -> str:
        return ""

    told: list[str] = []
    registry = site.registry
    registry.on_change(told.append)
    version = registry.version
    registry.set_disabled(frozenset({("tools", "one"), ("prompts", "nothing")}))

    assert list(registry.tools) == ["two"]
    assert set(registry.registered["tools"]) == {"one", "two"}
    assert told == ["tools"]
    assert registry.version == version + 1

    registry.set_disabled(frozenset({("tools", "one")}))
    assert told == ["tools"]

    registry.set_disabled(frozenset())
    assert list(registry.tools) == ["one", "two"]
    assert told == ["tools", "tools"]


def test_an_entry_disabled_before_registration_is_missing(site: Site):
    told: list[str] = []
    site.registry.set_disabled(frozenset({("prompts", "letter")}))
    site.registry.on_change(told.append)

    @site.prompt
    def letter() -> str:
        return ""

    assert dict(site.registry.prompts) == {}
    assert told == []
    with pytest.raises(RegistrationError, match="already"):
        site.prompt(letter)
    assert site.registry.remove("prompts", "letter")
    assert not site.registry.remove("prompts", "letter")
    assert dict(site.registry.registered["prompts"]) == {}
