"""Integers that clients would round are texts of digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from django_mcp import BigInt
from django_mcp.registry.problems import ArgumentErrors
from tests.support.client_schemas import violations
from tests.support.registry import Site

BIG = 2**63 - 1


@dataclass
class Post:
    id: BigInt
    parents: list[BigInt]
    quoted: BigInt | None = None


@pytest.fixture
def site() -> Site:
    site = Site()

    @site.tool
    def show(id: BigInt) -> Post:
        assert type(id) is int
        return Post(id, [2**53 - 1, 2**53, -(2**53)])

    return site


@pytest.mark.parametrize("sent", [BIG, str(BIG)])
def test_an_integer_or_its_digits_are_read_and_sent_as_text_beyond_what_is_exact(
    site: Site, sent: Any
):
    result = site.call("show", {"id": sent})

    assert result.structured == {
        "id": str(BIG),
        "parents": [2**53 - 1, str(2**53), str(-(2**53))],
        "quoted": None,
    }
    validator = site.registry.tools["show"].output_validator
    assert validator is not None
    assert validator.problems(result.structured) == []


def test_both_forms_are_published(site: Site):
    tool = site.registry.tools["show"]

    published = tool.input_schema["properties"]["id"]
    assert [form["type"] for form in published["anyOf"]] == ["integer", "string"]
    assert tool.output_schema is not None
    assert violations(tool.input_schema) == violations(tool.output_schema) == []


@pytest.mark.parametrize("sent", ["", "1.0", "1e3", " 1", "1\n", "٣", "9" * 41, True, None, 1.5])
def test_what_is_no_integer_in_digits_is_refused(site: Site, sent: Any):
    assert site.registry.tools["show"].input_validator.problems({"id": sent}) or _refuses(
        site, sent
    )


def _refuses(site: Site, sent: Any) -> bool:
    with pytest.raises(ArgumentErrors):
        site.registry.tools["show"].handler.read({"id": sent})
    return True
