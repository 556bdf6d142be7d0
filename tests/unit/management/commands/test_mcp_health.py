"""`mcp_health`: what it prints, on what it fails, and the signals that it sends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mcp.contrib.oauth.models import SignIn
from django_mcp.extensions.tasks.core.transitions import STOPPED
from django_mcp.health import Alert, signs
from django_mcp.health.alerts import note_alerts
from django_mcp.models import APIKey, HealthAlert, Worker
from django_mcp.signals import alert_began, alert_ended
from tests.unit.admin.test_live import make_worker
from tests.unit.admin.test_overview import AWAY, make_calls
from tests.unit.admin.test_tasks import make_task

pytestmark = pytest.mark.django_db
SITE = {"SYNC_THREADS": 0, "PUBLIC": True, "RECORD_CALLS": True, "SESSION_STORE": "model"}


@pytest.fixture(autouse=True)
def _site() -> Iterator[None]:
    signs._layer_faults.clear()
    with override_settings(DJANGO_MCP=SITE):
        yield


def run(*arguments: str) -> tuple[int, str, str]:
    """Return the exit status, the output and the error that the command ends with."""
    out, err = StringIO(), StringIO()
    try:
        call_command("mcp_health", *arguments, stdout=out, stderr=err)
    except CommandError as error:
        return error.returncode, out.getvalue(), f"{err.getvalue()}{error}"
    return 0, out.getvalue(), err.getvalue()


def readings() -> dict[str, Any]:
    status, out, _ = run("--json")
    assert status == 0
    return {each["name"]: each for each in json.loads(out)["readings"]}


def make_busy(busy: int, queued: int = 0) -> Worker:
    worker = make_worker()
    in_flight = {"total": busy, "threads": [busy, 10, queued], "exhausted": None}
    Worker.objects.filter(pk=worker.pk).update(in_flight=in_flight)
    return worker


def make_key(name: str, days: float, **values: Any) -> APIKey:
    owner, _ = get_user_model().objects.get_or_create(username="ann")
    ends = timezone.now() + timedelta(days=days, minutes=1)
    return APIKey.objects.issue(user=owner, name=name, expires_at=ends, **values)[0]


def make_sign_in(*, is_refused: bool, minutes: int = 1) -> None:
    at = timezone.now() - timedelta(minutes=minutes)
    SignIn.objects.create(at=at, step=SignIn.Step.TOKEN, is_refused=is_refused)


def make_lost_tasks() -> None:
    """Make two that were lost, one whose end is long ago, and three that were not."""
    now = timezone.now()
    ended = {"status": "failed", "error": STOPPED.to_error()}
    make_task(**ended, updated_at=now - timedelta(minutes=1))
    make_task(**ended, updated_at=now - timedelta(minutes=6))
    make_task(leased_until=now - timedelta(seconds=1))
    make_task(leased_until=now + timedelta(minutes=1))
    make_task(status="failed", error={"code": -32603, "message": "Internal error"})
    make_task(status="completed")


# -- what it prints


def test_without_conditions_everything_is_printed_and_nothing_fails():
    make_calls(97)
    make_calls(3, outcome="fault")
    make_calls(40, outcome="fault", started_at=timezone.now() - timedelta(minutes=6))
    make_busy(8, queued=3)
    make_busy(1)
    make_worker(lease_s=-1)
    key = make_key("of ann", 3)
    make_sign_in(is_refused=True)
    make_sign_in(is_refused=True, minutes=6)
    make_sign_in(is_refused=False)
    make_lost_tasks()
    status, out, err = run()

    assert (status, err) == (0, "")
    assert [line.split(maxsplit=1) for line in out.splitlines()] == [
        ["errors", "3.0 % of 100 calls"],
        ["p95", "41 ms of 100 calls"],
        ["pool", "8 of 10 threads of web-1:7 are busy"],
        ["queue", "3 calls wait for a thread"],
        ["workers", "1 worker does not report any more: web-1:7"],
        ["tasks", "2 tasks were lost, whose worker has stopped"],
        ["redis", "the cache answers"],
        ["keys", f"the next API keys to expire, the first in 3.0 days: {key}"],
        ["sign-ins", "1 sign-in was refused"],
    ]


def test_the_values_are_told_as_json():
    make_calls(30)
    make_calls(10, outcome="refused", duration_ms=1900, step=70)
    make_busy(7)
    found = readings()

    assert found["errors"]["value"] == 25
    assert found["p95"]["value"] == pytest.approx(1.85, abs=0.2)
    assert found["pool"]["value"] == 70
    assert [
        found[name]["value"] for name in ("queue", "workers", "tasks", "redis", "sign-ins")
    ] == [0] * 5
    assert found["keys"]["value"] is None


def test_a_key_has_no_control_characters_in_the_output():
    make_key("a\x1b[31m", 1)

    assert "\x1b" not in run()[1]


def test_a_question_makes_few_queries_that_read_a_bounded_part():
    make_calls(30)
    with CaptureQueriesContext(connection) as queries:
        run("--fail-on", "errors=5%", "p95=2s", "pool=90%", "queue=20", "workers")
    own = [each["sql"] for each in queries if 'FROM "django_mcp_' in each["sql"]]

    assert len(own) == 2
    assert "started_at" in own[0]


# -- on what it fails


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("errors=5%", True),
        ("errors=10%", True),
        ("errors=10.5%", False),
        ("p95=30ms", True),
        ("p95=0.03s", True),
        ("p95=2s", False),
        ("p95=1min", False),
        ("pool=80%", True),
        ("pool=80.1%", False),
        ("queue=3", True),
        ("queue=4", False),
        ("workers", True),
        ("tasks=2", True),
        ("tasks=3", False),
        ("redis", False),
        ("keys=3d", False),
        ("keys=4d", True),
        ("keys=97h", True),
        ("sign-ins=2", True),
        ("sign-ins=3", False),
    ],
)
def test_a_condition_holds_from_its_limit_on(condition: str, holds: bool):
    make_calls(90)
    make_calls(10, outcome="timeout")
    make_busy(8, queued=3)
    make_busy(2)
    make_worker(lease_s=-1)
    make_lost_tasks()
    make_key("first", 4 - 1 / 24)
    make_key("later", 9)
    make_key("ended", 1).revoke()
    make_sign_in(is_refused=True)
    make_sign_in(is_refused=True)
    status, out, err = run("--fail-on", condition)

    name = condition.partition("=")[0]
    assert status == (1 if holds else 0)
    assert out.startswith("FAIL " if holds else "ok ")
    assert err.startswith(f"{name}: ") == holds
    assert (condition in err and " See the " in err) == holds


def test_all_conditions_that_hold_are_named():
    make_calls(20, outcome="fault")
    status, out, err = run(
        "--fail-on", "errors=50%", "p95=1ms", "--fail-on", "queue=1", "errors=1%"
    )

    assert status == 1
    assert [line.split()[0] for line in out.splitlines()] == ["FAIL", "FAIL", "ok", "FAIL"]
    assert [line.partition(":")[0] for line in err.splitlines()] == ["errors", "p95", "errors"]


def test_few_calls_and_no_calls_are_no_failure():
    conditions = ("--fail-on", "errors=1%", "p95=1ms")
    assert run(*conditions)[0] == 0
    make_calls(19, outcome="fault")
    status, out, _ = run(*conditions)
    assert (status, "19 calls, too few to tell" in out) == (0, True)
    assert run(*conditions, "--min-calls", "19")[0] == 1


@AWAY
def test_redis_that_is_away_is_told_with_its_address():
    status, _, err = run("--fail-on", "redis")

    assert status == 1
    assert "RedisPubSubChannelLayer at 127.0.0.1:1 does not answer" in err
    assert "the cache default does not answer" in err


@pytest.mark.usefixtures("databases")
def test_a_database_that_does_not_answer_fails_without_any_condition():
    connections["second"].close()
    connections["second"].settings_dict["NAME"] = "/nowhere/database"
    status, out, err = run("--json")

    assert status == 1
    assert err == "The database 'second' does not answer (OperationalError)."
    assert json.loads(out)["database"] in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--fail-on", "error=5%"], "There is no condition 'error'. Did you mean errors?"),
        (
            ["--fail-on", "temperature=5%"],
            "There is no condition 'temperature'. Conditions: errors, p95,",
        ),
        (["--fail-on", "errors"], "such as errors=5%"),
        (["--fail-on", "errors=5"], "a number with %"),
        (["--fail-on", "errors=0%"], "must be above 0 and at most 100"),
        (["--fail-on", "errors=101%"], "must be above 0 and at most 100"),
        (["--fail-on", "p95=2"], "a number with ms or a number with s"),
        (["--fail-on", "p95=-2s"], "has no limit"),
        (["--fail-on", f"p95={'9' * 400}s"], "must be above 0"),
        (["--fail-on", "queue=20s"], "a number, such as queue=20"),
        (["--fail-on", "redis=1"], "redis has no limit"),
        (["--fail-on", "workers="], "workers has no limit"),
        (["--fail-on", "keys=91d"], "at most 90"),
        (["--minutes", "0"], "'0' is no whole number from 1 to 1440"),
        (["--minutes", "1441"], "is no whole number from 1 to 1440"),
        (["--min-calls", "many"], "'many' is no whole number"),
        (["--alert"], "--alert needs conditions"),
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str], told: str):
    if arguments[0] == "--fail-on" or arguments == ["--alert"]:
        status, _, err = run(*arguments)
        assert status == 2
    else:
        # As Django has it for options that the parser refuses.
        with pytest.raises(CommandError, match="argument") as refused:
            call_command("mcp_health", *arguments)
        err = str(refused.value)
    assert told in err


@pytest.mark.parametrize(
    ("settings", "condition", "needs"),
    [
        ({"RECORD_CALLS": False}, "errors=5%", "RECORD_CALLS"),
        ({"RECORD_CALLS": False}, "p95=5s", "RECORD_CALLS"),
        ({"SESSION_STORE": "memory"}, "pool=90%", "SESSION_STORE"),
        ({"SESSION_STORE": "memory"}, "queue=9", "SESSION_STORE"),
        ({"SESSION_STORE": "memory"}, "workers", "SESSION_STORE"),
        ({"TASK_STORE": "memory"}, "tasks=1", "TASK_STORE"),
    ],
)
def test_what_a_site_cannot_tell_is_refused_instead_of_never_failing(
    settings: dict[str, Any], condition: str, needs: str
):
    with override_settings(DJANGO_MCP={**SITE, **settings}):
        status, _, err = run("--fail-on", condition)
        assert run()[0] == 0

    assert status == 2
    assert f"{condition} never holds on this site" in err
    assert needs in err


# -- the signals


class Pager:
    """Receives both signals."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Alert]] = []
        self.is_down = False

    def began(self, sender: Any, alert: Alert, **_kwargs: Any) -> None:
        self._note("began", sender, alert)

    def ended(self, sender: Any, alert: Alert, **_kwargs: Any) -> None:
        self._note("ended", sender, alert)

    def _note(self, what: str, sender: Any, alert: Alert) -> None:
        assert sender is HealthAlert
        if self.is_down:
            raise ConnectionError("the pager is down")
        self.told.append((what, alert))

    def take(self) -> list[tuple[str, str]]:
        told, self.told = self.told, []
        return [(what, alert.condition) for what, alert in told]


@pytest.fixture
def pager() -> Iterator[Pager]:
    pager = Pager()
    alert_began.connect(pager.began)
    alert_ended.connect(pager.ended)
    yield pager
    alert_began.disconnect(pager.began)
    alert_ended.disconnect(pager.ended)


ERRORS = ("--fail-on", "errors=50%", "queue=1")


def test_signals_are_sent_once_when_a_condition_begins_and_ends(pager: Pager):
    make_calls(20, outcome="fault")
    assert run(*ERRORS)[0] == 1
    assert pager.take() == []

    assert run(*ERRORS, "--alert")[0] == 1
    (what, alert) = pager.told[0]
    assert (what, alert.name, alert.text) == ("began", "errors", "100.0 % of 20 calls")
    assert alert.look == "the tab Errors of the admin"
    assert pager.take() == [("began", "errors=50% in 5 min")]

    assert run(*ERRORS, "--alert")[0] == 1
    assert pager.take() == []

    make_calls(80)
    make_busy(1, queued=1)
    assert run(*ERRORS, "--alert")[0] == 1
    ended = dict(pager.told)["ended"]
    assert (ended.text, ended.began_at) == ("20.0 % of 100 calls", alert.began_at)
    assert pager.take() == [("began", "queue=1"), ("ended", "errors=50% in 5 min")]
    assert [row.pk for row in HealthAlert.objects.all()] == ["queue=1"]


def test_what_cannot_be_told_does_not_end_an_alert(pager: Pager):
    make_calls(20, outcome="fault")
    run(*ERRORS, "--alert")
    pager.take()
    run(*ERRORS, "--alert", "--min-calls", "100")

    assert pager.take() == []
    assert HealthAlert.objects.count() == 1


def test_a_receiver_that_fails_is_told_again(pager: Pager, caplog: pytest.LogCaptureFixture):
    make_calls(20, outcome="fault")
    pager.is_down = True
    run(*ERRORS, "--alert")
    assert "A receiver of a signal failed" in caplog.text
    assert not HealthAlert.objects.exists()

    pager.is_down = False
    run(*ERRORS, "--alert")
    assert pager.take() == [("began", "errors=50% in 5 min")]

    make_calls(80)
    pager.is_down = True
    run(*ERRORS, "--alert")
    pager.is_down = False
    run(*ERRORS, "--alert")
    run(*ERRORS, "--alert")
    assert pager.take() == [("ended", "errors=50% in 5 min")]


def test_a_condition_that_nobody_looks_at_any_more_ends_after_a_day(pager: Pager):
    then = timezone.now() - timedelta(hours=25)
    HealthAlert.objects.create(condition="errors=9% in 5 min", began_at=then, checked_at=then)
    now = timezone.now()
    HealthAlert.objects.create(condition="queue=9", began_at=then, checked_at=now)
    run(*ERRORS, "--alert")

    assert [(alert.name, alert.began_at) for _, alert in pager.told] == [("errors", then)]
    assert pager.take() == [("ended", "errors=9% in 5 min")]
    assert HealthAlert.objects.get().pk == "queue=9"


def test_alerts_that_nobody_listens_to_are_told():
    status, _, err = run(*ERRORS, "--alert")

    assert status == 0
    assert "No receiver waits for alert_began" in err


class ToFirst:
    """Routes everything to a database that threads share."""

    def db_for_read(self, *_args: Any, **_hints: Any) -> str:
        return "first"

    db_for_write = db_for_read


@pytest.mark.usefixtures("databases")
def test_of_many_that_look_at_the_same_time_one_sends_the_signal(pager: Pager):
    alert = Alert(name="queue", condition="queue=1", text="", look="", began_at=timezone.now())
    barrier = threading.Barrier(6)

    def look(alerts: tuple[list[Alert], list[Alert]]) -> None:
        barrier.wait(60)
        try:
            note_alerts(*alerts)
        finally:
            connections.close_all()

    with override_settings(DATABASE_ROUTERS=[ToFirst()]), ThreadPoolExecutor(6) as pool:
        list(pool.map(look, [([alert], [])] * 6))
        began = pager.take()
        list(pool.map(look, [([], [alert])] * 6))

    assert began == [("began", "queue=1")]
    assert pager.take() == [("ended", "queue=1")]
