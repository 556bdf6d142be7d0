"""A small share of the fuzzing; `python -m tests.fuzz` does the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import generated, inprocess, sockets

SEED = 1


def test_mutated_messages_cause_no_internal_error():
    fuzzer = inprocess.Fuzzer(SEED)

    inprocess.run(fuzzer, 300)

    assert fuzzer.sent >= 300
    assert not fuzzer.failures, "\n".join(map(str, fuzzer.failures[:5]))


@pytest.mark.slow
def test_mutated_requests_cause_no_internal_error_on_a_real_server(tmp_path: Path):
    fuzzer = sockets.run("uvicorn", 150, SEED, folder=tmp_path)

    failures = [each for each in fuzzer.failures if "at about this time" not in each.why]
    assert fuzzer.sent >= 150
    assert not failures, "\n".join(map(str, failures[:5]))


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_extreme_values_cause_no_internal_error_of_generated_tools():
    fuzzer = generated.make_fuzzer(SEED)

    fuzzer.run(300)

    assert fuzzer.outcomes["result"] > 30
    assert not fuzzer.failures, "\n".join(map(str, fuzzer.failures[:5]))
