"""Every invalid value of every setting is E001, whatever else reads that setting."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.apps import discover
from django_mcp.conf import SETTINGS, find_problems
from django_mcp.endpoints.urlconf import patterns_of
from django_mcp.servers import default_server

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db

VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    -0.5,
    float("nan"),
    float("inf"),
    10**400,
    "",
    "no such thing!",
    "\udcff",
    b"bytes",
    object(),
    [],
    [None],
    [[]],
    [{}],
    ["no such thing!"],
    {},
    {None: None},
    {"name": []},
]


def reported(key: str, value: Any) -> list[tuple[str | None, str, str | None]]:
    """Return E001 and E002, after everything that is read while Django starts was read."""
    with override_settings(DJANGO_MCP={key: value}):
        discover()
        patterns_of(default_server)
        messages = run_checks(tags=["django_mcp"], include_deployment_checks=True)
    ids = ("django_mcp.E001", "django_mcp.E002")
    return [(each.id, each.msg, each.hint) for each in messages if each.id in ids]


def wrong_values(key: str) -> list[Any]:
    return [value for value in VALUES if not SETTINGS[key].rule.accepts(value)]


@pytest.mark.parametrize("key", SETTINGS)
def test_each_wrong_value_is_a_problem(key: str):
    assert len(wrong_values(key)) > 10
    for value in wrong_values(key):
        assert any(find_problems({key: value}))


@pytest.mark.slow
@pytest.mark.parametrize("key", SETTINGS)
def test_each_wrong_value_is_reported_with_the_allowed_ones(key: str):
    rule, wrong = SETTINGS[key].rule, wrong_values(key)

    # Reading the settings of a site takes its time, so not every value goes through all of it.
    for value in wrong[:: len(wrong) // 4]:
        ((id_, message, hint),) = reported(key, value)

        assert id_ == "django_mcp.E001"
        assert message.startswith(f"DJANGO_MCP[{key!r}] cannot be ")
        assert hint == rule.remedy(value)


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(st.sampled_from(list(SETTINGS)), values)
def test_any_value_is_valid_or_reported(key: str, value: Any):
    is_wrong = any(find_problems({key: value}))

    assert [id_ for id_, *_ in reported(key, value)] == ["django_mcp.E001"] * is_wrong


@override_settings(MCP_SETTINGS={"PUBLIC": True}, MCP_OTHER={"PUBLIC": True, "x": 1})
def test_a_dict_of_settings_under_another_name_is_reported():
    def told() -> list[str]:
        messages = run_checks(tags=["django_mcp"])
        return [each.msg for each in messages if each.id == "django_mcp.E002"]

    with override_settings(DJANGO_MCP={}):
        del settings.DJANGO_MCP
        assert told() == ["Nothing reads the setting MCP_SETTINGS."]
    with override_settings(DJANGO_MCP={}):
        assert told() == []
