"""Date-times of clients and of results, in the time zone of the site, by annotated functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from typing import Annotated, Any

import pytest
from django import forms
from django.test import override_settings
from django.utils import timezone
from pydantic import AwareDatetime, BaseModel, Field, NaiveDatetime, PastDatetime, computed_field

from django_mcp import Context, MCPServer
from django_mcp.inprocess.results import Unanswered
from django_mcp.test import MCPClient

# Threads of handlers tidy the connections that other tests have opened.
pytestmark = pytest.mark.django_db

_numbers = count()

BERLIN = "Europe/Berlin"


class Slot(BaseModel):
    begins: datetime
    metadata: datetime | None = None

    @computed_field
    def ends(self) -> datetime:
        return datetime.fromisoformat("2026-07-01T12:00:00")


@dataclass
class Wish:
    begins: datetime


@dataclass
class Plan:
    begins: datetime | None
    more: list[datetime] = field(default_factory=list)


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def client(seen: list[Any]) -> Any:
    server = MCPServer(f"moments-{next(_numbers)}", public=True)

    @server.tool(read_only=True)
    def one(at: datetime) -> datetime:
        seen.append(at)
        return at

    @server.tool(read_only=True)
    async def several(plan: Plan, slot: Slot) -> list[Slot]:
        seen.extend([plan, slot])
        return [slot]

    @server.tool(read_only=True)
    def constrained(
        aware: AwareDatetime | None = None,
        naive: NaiveDatetime | None = None,
        past: PastDatetime | None = None,
        late: Annotated[datetime, Field(gt=datetime(2020, 1, 1, tzinfo=UTC))] | None = None,
    ) -> None:
        seen.extend([aware, naive, past, late])

    @server.tool(read_only=True)
    def unions(either: datetime | date, text: datetime | str, day: date, at: time) -> None:
        seen.extend([either, text, day, at])

    @server.tool(read_only=True)
    def written() -> Plan:
        return Plan(
            datetime.fromisoformat("2026-07-01T12:00:00"),
            [
                datetime(2026, 7, 1, 12, tzinfo=UTC),
                datetime.fromisoformat("1800-01-01T00:00:00"),
                datetime.fromisoformat("0001-01-01T00:00:00"),
                datetime.fromisoformat("9999-12-31T23:59:59"),
                datetime.fromisoformat("2026-03-29T02:30:00"),
            ],
        )

    @server.prompt
    def remind(at: datetime) -> str:
        return str(at)

    @server.resource("day://{at}")
    def day(at: datetime) -> str:
        return str(at)

    @server.tool(read_only=True)
    def meet(ctx: Context) -> None:
        seen.append(ctx.elicit("When?", Wish))

    @server.tool(read_only=True)
    def fill_in(ctx: Context) -> None:
        seen.append(ctx.elicit("When?", Question))

    with timezone.override(BERLIN):
        yield MCPClient(server)


def error(client: MCPClient, tool: str, **arguments: Any) -> str:
    found = client.call(tool, **arguments)
    assert found.is_error
    return found.text


def test_a_naive_value_is_read_in_the_current_time_zone(client: MCPClient, seen: list[Any]):
    assert client.call("one", at="2026-01-01T10:00:00").structured == "2026-01-01T10:00:00+01:00"
    assert client.call("one", at="2026-07-01").structured == "2026-07-01T00:00:00+02:00"
    with timezone.override("Asia/Kolkata"):
        client.call("one", at="2026-01-01T10:00:00")

    assert [each.utcoffset() for each in seen] == [
        timedelta(hours=1),
        timedelta(hours=2),
        timedelta(hours=5, minutes=30),
    ]


def test_a_value_with_an_offset_is_that_moment(client: MCPClient, seen: list[Any]):
    sent = "2026-10-25T02:30:00+01:00"

    assert client.call("one", at=sent).structured == sent
    assert seen == [datetime(2026, 10, 25, 1, 30, tzinfo=UTC)]


@pytest.mark.parametrize("at", ["2026-03-29T02:30:00", "2026-10-25T02:30:00"])
def test_a_time_that_the_clocks_skip_or_repeat_is_an_argument_error(
    client: MCPClient, seen: list[Any], at: str
):
    shown = at.replace("T", " ")
    told = (
        f"/at: {shown} couldn’t be interpreted in time zone Europe/Berlin; "
        "it may be ambiguous or it may not exist."
    )

    assert told in error(client, "one", at=at)
    assert "/plan/more/1: " in error(
        client,
        "several",
        plan={"begins": None, "more": ["2026-01-01T10:00:00", at]},
        slot={"begins": "2026-01-01"},
    )
    assert seen == []


@pytest.mark.parametrize(
    "at",
    [
        "0001-01-01T00:00:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-10:00",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00-24:00",
        "10000-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
    ],
)
@pytest.mark.parametrize("use_tz", [True, False])
def test_a_moment_that_utc_cannot_hold_is_an_argument_error(
    client: MCPClient, seen: list[Any], at: str, use_tz: bool
):
    with override_settings(USE_TZ=use_tz):
        assert "/at: " in error(client, "one", at=at)
    assert seen == []


def test_moments_inside_of_models_and_dataclasses_are_read_and_written_alike(
    client: MCPClient, seen: list[Any]
):
    found = client.call(
        "several",
        plan={"begins": "2026-01-01T10:00:00", "more": ["2026-07-01T10:00:00"]},
        slot={"begins": "2026-01-01T10:00:00", "metadata": "2026-01-01T11:00:00"},
    )

    plan, slot = seen
    for each in (plan.begins, *plan.more, slot.begins, slot.metadata):
        assert timezone.is_aware(each)
    assert found.structured == [
        {
            "begins": "2026-01-01T10:00:00+01:00",
            "metadata": "2026-01-01T11:00:00+01:00",
            "ends": "2026-07-01T12:00:00+02:00",
        }
    ]
    assert Slot.model_validate({"begins": "2026-01-01T10:00:00"}).begins == datetime.fromisoformat(
        "2026-01-01T10:00:00"
    )


def test_what_an_annotation_demands_is_true_of_what_the_handler_gets(
    client: MCPClient, seen: list[Any]
):
    at = "2026-01-01T10:00:00"
    assert not client.call("constrained", aware=at, naive=at, past=at, late=at).is_error
    aware, naive, past, late = seen
    assert aware == past == late == datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert naive == datetime.fromisoformat("2026-01-01T10:00:00")

    told = error(
        client, "constrained", naive=f"{at}Z", past="2999-01-01T00:00:00", late="2020-01-01"
    )
    for name in ("naive", "past", "late"):
        assert f"/{name}: " in told


def test_other_types_stay_what_they_are(client: MCPClient, seen: list[Any]):
    client.call(
        "unions", either="2026-01-01", text="2026-01-01T10:00:00", day="2026-01-01", at="10:00"
    )

    either, text, day, at = seen
    assert either.isoformat() == "2026-01-01T00:00:00+01:00"
    assert (text, day, at) == ("2026-01-01T10:00:00", date(2026, 1, 1), time(10))


def test_a_naive_value_of_a_handler_gets_an_offset(client: MCPClient):
    found = client.call("written")

    assert found.structured == {
        "begins": "2026-07-01T12:00:00+02:00",
        "more": [
            "2026-07-01T12:00:00Z",
            "1799-12-31T23:06:32Z",  # since the offset has seconds, which `date-time` cannot have
            "0001-01-01T00:00:00+00:53",
            "9999-12-31T23:59:59+01:00",
            "2026-03-29T02:30:00+01:00",
        ],
    }


def test_prompts_and_templates_read_in_the_current_time_zone(client: MCPClient):
    prompt = client.prompt("remind", at="2026-01-01T10:00:00")

    assert "2026-01-01 10:00:00+01:00" in str(prompt.raw)
    assert client.read("day://2026-01-01T10:00:00").text == "2026-01-01 10:00:00+01:00"


def test_answers_are_read_in_the_current_time_zone(client: MCPClient, seen: list[Any]):
    client.answer({"begins": "2026-01-01T10:00:00"})
    client.call("meet")

    assert seen[0].data.begins == datetime(2026, 1, 1, 9, tzinfo=UTC)


@override_settings(USE_TZ=False)
def test_without_use_tz_handlers_get_naive_moments_in_the_time_zone(
    client: MCPClient, seen: list[Any]
):
    assert client.call("one", at="2026-07-01T10:00:00Z").structured == "2026-07-01T12:00:00+02:00"
    assert client.call("one", at="2026-07-01T12:00:00").structured == "2026-07-01T12:00:00+02:00"
    client.call("one", at="2026-03-29T02:30:00")
    client.call("constrained", aware="2026-07-01T12:00:00", naive="2026-07-01T12:00:00")

    assert seen[:5] == [
        datetime.fromisoformat("2026-07-01T12:00:00"),
        datetime.fromisoformat("2026-07-01T12:00:00"),
        datetime.fromisoformat("2026-03-29T02:30:00"),
        datetime(2026, 7, 1, 10, tzinfo=UTC),
        datetime.fromisoformat("2026-07-01T12:00:00"),
    ]


class Question(forms.Form):
    begins = forms.DateTimeField()


@pytest.mark.parametrize(
    ("use_tz", "begins"),
    [
        (True, datetime(2026, 7, 1, 10, tzinfo=UTC)),
        (False, datetime.fromisoformat("2026-07-01T12:00:00")),
    ],
)
def test_forms_of_django_read_answers_by_the_settings(
    client: MCPClient, seen: list[Any], use_tz: bool, begins: datetime
):
    with override_settings(USE_TZ=use_tz):
        for sent in ("2026-07-01T10:00:00Z", "2026-07-01T12:00:00"):
            client.answer({"begins": sent})
            client.call("fill_in")
            assert seen.pop().data.cleaned_data == {"begins": begins}


@pytest.mark.parametrize("begins", ["2026-03-29T02:30:00", "0001-01-01T00:00:00+14:00", "x"])
def test_forms_of_django_refuse_answers_that_are_no_moments(
    client: MCPClient, seen: list[Any], begins: str
):
    client.answer({"begins": begins})
    with pytest.raises(Unanswered, match="begins: "):  # it is asked again, with what is wrong
        client.call("fill_in")

    assert seen == []
