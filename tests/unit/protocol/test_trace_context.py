"""Values of a trace context, which a client chooses."""

from __future__ import annotations

import pytest

from django_mcp.protocol.trace_context import MAX_BLANKS, find_trace

BLANKS = " \t" * (MAX_BLANKS // 2)


@pytest.mark.parametrize(
    "value",
    ["a=", "a=b=c,d=e", "a=b;c", "a=b; c ;d=", "a=b;c = d ; e=\t,f=g", f"a=b;c={BLANKS}d"],
)
def test_baggage_that_is_well_formed_is_found(value: str):
    assert find_trace({"baggage": value}) == {"baggage": value}


@pytest.mark.parametrize("value", ["", "a", "=b", "a=b;", "a=b;=c", "a=b;c=d e", 'a="', "a=b\n"])
def test_other_baggage_does_not_count(value: str):
    assert find_trace({"baggage": value}) == {}


@pytest.mark.parametrize(
    "meta",
    [{"baggage": f"a=b;c={BLANKS} d"}, {"tracestate": f"a=b,{BLANKS} c=d"}],
)
def test_a_long_run_of_blanks_does_not_count(meta: dict[str, str]):
    """To find the delimiters in one takes time with the square of its length."""
    assert find_trace(meta) == {}
    shorter = {key: value.replace(f"{BLANKS} ", BLANKS) for key, value in meta.items()}
    assert find_trace(shorter) == shorter
