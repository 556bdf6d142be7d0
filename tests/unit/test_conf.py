"""The settings dict: defaults, reading, resetting, and validation."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.conf import SETTINGS, find_problems, server_settings, settings
from django_mcp.protocol.annotations import Icon
from django_mcp.protocol.revisions import REVISIONS

KEYS = list(SETTINGS)


@override_settings(DJANGO_MCP={})
def test_every_setting_has_a_valid_default():
    defaults = {key: getattr(settings, key) for key in KEYS}

    assert defaults == {key: setting.default for key, setting in SETTINGS.items()}
    assert list(find_problems(defaults)) == []


def test_a_missing_dict_means_all_defaults():
    with override_settings():
        from django.conf import settings as site_settings

        del site_settings.DJANGO_MCP
        assert server_settings.page_size == 1000


def test_a_changed_setting_is_read_again():
    with override_settings(DJANGO_MCP={"PAGE_SIZE": 7}):
        assert server_settings.page_size == 7
        with override_settings(DJANGO_MCP={"PAGE_SIZE": 8}):
            assert server_settings.page_size == 8
        assert server_settings.page_size == 7
    assert server_settings.page_size == 1000


RIGHT: list[tuple[str, Any]] = [
    ("TITLE", gettext_lazy("Shop")),
    ("ICONS", [Icon("https://example.com/i.png"), {"src": "https://example.com/j.png"}]),
    ("ICONS", ["https://example.com/i.png"]),
    ("REVISIONS", [REVISIONS[0].name, REVISIONS[-1].name]),
    ("CALL_TIMEOUT_S", None),
    ("CALL_TIMEOUT_S", 0.5),
    ("SYNC_THREADS", 0),
    ("REPLACEMENT_THREADS", 4),
    ("LIST_TTL_MS", 0),
    ("ALLOWED_ORIGINS", ["https://app.example.com", "http://localhost:5173", "http://[::1]:80"]),
    ("ALLOWED_ORIGINS", ["*"]),
    ("AUTODISCOVER_MODULE", None),
    ("AUTODISCOVER_MODULE", "api.mcp"),
    ("LOG_LEVEL", "emergency"),
    ("PAGE_SIZE", 0),
]
WRONG: list[tuple[str, Any]] = [
    ("NAME", ""),
    ("NAME", None),
    ("TITLE", 3),
    ("ICONS", "icon.png"),
    ("ICONS", [{"href": "x"}]),
    ("ICONS", [{"src": 3}]),
    ("ICONS", [{"src": "https://example.com/i.png", "mimeType": "image/png"}]),
    ("ICONS", [{"src": "javascript:alert(1)"}]),
    ("ICONS", [None]),
    ("ICONS", [{"src": "https://example.com/i.png", "sizes": 3}]),
    ("MODE", "statefull"),
    ("REVISIONS", ["2001-01-01"]),
    ("REVISIONS", [["2001-01-01"]]),
    ("PAGE_SIZE", -1),
    ("PAGE_SIZE", True),
    ("PAGE_SIZE", "10"),
    ("STATE_INLINE_BYTES", 131_073),
    ("READ_CHUNK_BYTES", 3),
    ("ANONYMOUS_SHARE", 0),
    ("RECORD_CALLS", 1.5),
    ("THROTTLE", {"user": "5/m"}),
    ("SCOPES", ["two words"]),
    ("SCOPE_IMPLIES", {"orders": "orders:read"}),
    ("PUBLIC_URL", "https://shop.example.com/"),
    ("OAUTH_PREFIX", "oauth"),
    ("VALIDATE_INPUT", 1),
    ("CALL_TIMEOUT_S", 0),
    ("CALL_TIMEOUT_S", float("nan")),
    ("MAX_BODY_BYTES", 1.5),
    ("SYNC_THREADS", -1),
    ("REPLACEMENT_THREADS", -1),
    ("ALLOWED_ORIGINS", "https://app.example.com"),
    ("ALLOWED_ORIGINS", ["https://app.example.com/"]),
    ("ALLOWED_ORIGINS", ["app.example.com"]),
    ("ALLOWED_ORIGINS", ["http://[::1"]),
    ("MIDDLEWARE", ["not a path"]),
    ("LOG_LEVEL", "warn"),
    ("LOG_LEVEL", ["info"]),
    ("AUTODISCOVER_MODULE", "mcp.py!"),
]


@pytest.mark.parametrize(("key", "value"), RIGHT)
def test_a_valid_value_is_used(key: str, value: Any):
    with override_settings(DJANGO_MCP={key: value}):
        assert getattr(settings, key) is value
    assert list(find_problems({key: value})) == []


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_an_invalid_value_is_reported_and_not_used(key: str, value: Any):
    (problem,) = find_problems({key: value})

    assert f"DJANGO_MCP[{key!r}] " in problem.message
    assert not problem.is_unknown
    assert problem.hint.startswith("It must be ")
    with override_settings(DJANGO_MCP={key: value}), pytest.raises(ImproperlyConfigured, match=key):
        getattr(settings, key)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("PAGESIZE", "PAGE_SIZE"),
        ("page_size", "PAGE_SIZE"),
        ("ALLOWED_ORIGIN", "ALLOWED_ORIGINS"),
        ("CALLTIMEOUT", "CALL_TIMEOUT_S"),
    ],
)
def test_an_unknown_key_is_reported_with_the_nearest(key: str, nearest: str):
    (problem,) = find_problems({key: 1})

    assert problem.is_unknown
    assert problem.hint == f"Did you mean {nearest!r}?"


@pytest.mark.parametrize("key", ["ALLOWED_HOSTS", "DEBUG"])
def test_a_setting_of_django_belongs_outside(key: str):
    (problem,) = find_problems({key: ["*"]})

    assert problem.is_unknown
    assert problem.hint == f"{key} is a setting of Django: write it outside of DJANGO_MCP."


class Hidden:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("value", [Hidden(), 10**5000], ids=["raises", "too long"])
def test_an_invalid_value_without_repr_is_reported(value: Any):
    (problem,) = find_problems({"MODE": value})

    assert "a value of type" in problem.message


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("MODE", "statefull", "'both', 'stateful' or 'stateless'"),
        ("PAGE_SIZE", -1, "a whole number of entries, 0 or more"),
        ("STATE_INLINE_BYTES", -1, "a whole number of bytes, 0 to 131072"),
        ("PING_INTERVAL_S", 0, "above 0 and below 1e9, or None for no pings"),
        (
            "ICONS",
            [{"mimeType": "image/png"}],
            "'src' (an https or data URI) and optionally 'mime_type'",
        ),
        ("ICONS", [{"mimeType": "image/png"}], "`mimeType`: did you mean `mime_type`?"),
    ],
)
def test_an_invalid_value_is_reported_with_the_allowed_ones(key: str, value: Any, allowed: str):
    (problem,) = find_problems({key: value})

    assert problem.message == f"DJANGO_MCP[{key!r}] cannot be {value!r}."
    assert allowed in problem.hint


def test_an_unrecognizable_key_is_reported_with_all_keys():
    (problem,) = find_problems({"QQQQ": 1})

    assert "PAGE_SIZE" in problem.hint


@pytest.mark.parametrize("raw", [None, [], "MODE", 3])
def test_anything_but_a_dict_is_reported(raw: Any):
    (problem,) = find_problems(raw)

    assert "not a dict" in problem.message
    with override_settings(DJANGO_MCP=raw), pytest.raises(ImproperlyConfigured):
        settings.MIDDLEWARE  # noqa: B018  (reading it is the test)


def test_reading_an_unknown_setting_raises():
    with pytest.raises(AttributeError):
        settings.PAGES  # type: ignore[attr-defined]  # noqa: B018


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
)


@given(key=st.sampled_from(KEYS) | st.text(), value=values)
def test_any_dict_is_validated(key: str, value: Any):
    assert len(list(find_problems({key: value}))) <= 1
