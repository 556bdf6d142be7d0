"""Counts by caller, and the limits on them."""

from django_mcp.server.exchange.quotas import Limits, QuotaMeter, QuotaScope, quota_key_of

LIMITS = Limits(own_count=2, own_bytes=100, count=4, bytes=150)
ANN, BOB, EVE = (quota_key_of(name, None) for name in ("ann", "bob", "eve"))
STRANGERS = [quota_key_of(None, f"192.0.2.{number}") for number in range(3)]


def test_counts_are_limited_per_caller_and_in_total():
    meter = QuotaMeter()
    assert [meter.take(LIMITS, ANN, 10) for _ in range(3)] == [None, None, QuotaScope.OWN]
    assert [meter.take(LIMITS, BOB, 10) for _ in range(3)] == [None, None, QuotaScope.OWN]
    assert meter.take(LIMITS, EVE, 10) is QuotaScope.ALL
    meter.give_back(ANN, 10)
    assert meter.take(LIMITS, EVE, 10) is None


def test_bytes_are_limited():
    meter = QuotaMeter()
    assert meter.take(LIMITS, ANN, 101) is QuotaScope.OWN
    assert meter.take(LIMITS, ANN, 100) is None
    assert meter.take(LIMITS, BOB, 51) is QuotaScope.ALL
    assert meter.take(LIMITS, BOB, 50) is None


def test_anonymous_callers_cannot_use_the_whole_quota():
    meter = QuotaMeter()
    found = [meter.take(LIMITS, each, 1, share=0.5) for each in STRANGERS]
    assert found == [None, None, QuotaScope.ALL]
    assert meter.take(LIMITS, ANN, 1, share=0.5) is None


def test_released_counts_are_dropped():
    meter = QuotaMeter()
    meter.take(LIMITS, STRANGERS[0], 5)
    meter.give_back(STRANGERS[0], 5)
    assert not meter._used


def test_anonymous_callers_without_an_address_are_counted_once():
    meter = QuotaMeter()
    nobody = quota_key_of(None, None)

    meter.add(nobody, 10, count=1)
    meter.add(quota_key_of(None, "192.0.2.1"), 10, count=1)

    assert meter.find_reached(LIMITS, nobody, 0) is None
    assert meter.find_reached(LIMITS, nobody, 0, count=2) is QuotaScope.OWN
    assert meter.find_reached(LIMITS, STRANGERS[0], 0, share=0.75) is None
    assert meter.find_reached(LIMITS, STRANGERS[0], 0, share=0.5) is QuotaScope.ALL
