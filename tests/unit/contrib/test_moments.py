"""Date-times of generated tools: naive values are of the current time zone, and results have its offset."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone

from django_mcp import MCPServer
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.test import MCPClient
from tests.support.library.models import Sample
from tests.support.library.tools import make_server

pytestmark = pytest.mark.django_db

BERLIN = "Europe/Berlin"
SKIPPED, REPEATED = "2026-03-29T02:30:00", "2026-10-25T02:30:00"
EXTREMES = [
    "0001-01-01T00:00:00",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59",
    "9999-12-31T23:59:59-14:00",
    "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00-24:00",
    "10000-01-01T00:00:00Z",
]


@pytest.fixture(scope="module")
def server() -> MCPServer:
    return make_server("moments")


@pytest.fixture
def client(server: MCPServer) -> Any:
    user = User.objects.create_superuser("root")
    with timezone.override(BERLIN):
        yield MCPClient(server, user=user)


def shown(client: MCPClient, prefix: str) -> Any:
    key = {"code": "a"} if not prefix else {"id": Sample.objects.get().pk}
    return client.call(f"{prefix}get_sample", **key).structured["moment"]


def found(client: MCPClient, prefix: str, **arguments: Any) -> list[str]:
    result = client.call(f"{prefix}search_samples", **arguments)
    assert not result.is_error, result.text
    return [each["code"] for each in result.structured["results"]]


SOURCES = pytest.mark.parametrize("prefix", ["", "admin_"], ids=["models", "admin"])


@SOURCES
@pytest.mark.parametrize(
    ("moment", "offset"),
    [
        (datetime(2026, 1, 1, 9, tzinfo=UTC), "+01:00"),
        (datetime(2026, 7, 1, 8, tzinfo=UTC), "+02:00"),
    ],
)
def test_results_have_the_offset_of_the_current_time_zone(
    client: MCPClient, prefix: str, moment: datetime, offset: str
):
    Sample.objects.create(code="a", moment=moment)

    assert shown(client, prefix) == f"{moment:%Y-%m-%d}T10:00:00{offset}"
    with timezone.override("Asia/Kolkata"):
        assert shown(client, prefix) == timezone.localtime(moment).isoformat()
    searched = client.call(f"{prefix}search_samples").structured["results"]
    assert searched[0]["moment"] == f"{moment:%Y-%m-%d}T10:00:00{offset}"


@SOURCES
@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
        (datetime(9999, 12, 31, 23, 30, tzinfo=UTC), "9999-12-31T23:30:00Z"),
        (datetime(1800, 1, 1, tzinfo=UTC), "1800-01-01T00:00:00Z"),
        (datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "2026-10-25T02:30:00+01:00"),
    ],
)
def test_what_the_time_zone_cannot_show_is_shown_in_utc(
    client: MCPClient, prefix: str, moment: datetime, written: str
):
    Sample.objects.create(code="a", moment=moment)

    with timezone.override("America/New_York" if moment.year == 1 else BERLIN):
        assert shown(client, prefix) == written


@SOURCES
def test_a_naive_value_is_written_in_the_current_time_zone(client: MCPClient, prefix: str):
    assert not client.call(
        f"{prefix}create_sample", code="a", moment="2026-01-01T10:00:00", data={"a": 1}
    ).is_error
    assert Sample.objects.get().moment == datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert shown(client, prefix) == "2026-01-01T10:00:00+01:00"

    key = {"code": "a"} if not prefix else {"id": Sample.objects.get().pk}
    with timezone.override("Asia/Kolkata"):
        client.call(f"{prefix}update_sample", **key, moment="2026-07-01T10:00:00")
    assert Sample.objects.get().moment == datetime(2026, 7, 1, 4, 30, tzinfo=UTC)


@SOURCES
@pytest.mark.parametrize("moment", [SKIPPED, REPEATED])
def test_a_written_time_that_the_clocks_skip_or_repeat_is_an_argument_error(
    client: MCPClient, prefix: str, moment: str
):
    result = client.call(f"{prefix}create_sample", code="a", moment=moment, data={"a": 1})

    assert result.is_error
    told = f"/moment: {moment.replace('T', ' ')} couldn’t be interpreted in time zone {BERLIN}"
    assert told in result.text
    assert not Sample.objects.exists()


@SOURCES
@pytest.mark.parametrize("offset", ["+01:00", "+02:00"])
def test_an_offset_says_which_of_the_repeated_times_is_meant(
    client: MCPClient, prefix: str, offset: str
):
    sent = f"{REPEATED}{offset}"
    result = client.call(f"{prefix}create_sample", code="a", moment=sent, data={"a": 1})

    assert not result.is_error, result.text
    assert Sample.objects.get().moment == datetime.fromisoformat(sent)
    assert shown(client, prefix) == sent
    assert found(client, prefix, moment__gte=sent) == ["a"]
    assert found(client, prefix, moment__lt=sent) == []


@SOURCES
def test_filters_read_naive_values_in_the_current_time_zone(client: MCPClient, prefix: str):
    Sample.objects.create(code="a", moment=datetime(2026, 1, 1, 9, tzinfo=UTC))

    for argument, value in {
        "moment__gte": "2026-01-01T10:00:00",
        "moment__lt": "2026-01-01T10:00:01",
    }.items():
        assert found(client, prefix, **{argument: value}) == ["a"]
    assert found(client, prefix, moment__lt="2026-01-01T10:00:00") == []
    for moment in (SKIPPED, REPEATED):
        result = client.call(f"{prefix}search_samples", moment__gte=moment)
        assert "/moment__gte: " in result.text
        assert "couldn’t be interpreted" in result.text


def test_lists_in_filters_are_read_so_too(client: MCPClient):
    Sample.objects.create(code="a", moment=datetime(2026, 1, 1, 9, tzinfo=UTC))

    assert found(client, "", moment__in=["2026-01-01T10:00:00"]) == ["a"]
    assert found(client, "", moment__range=["2026-01-01T10:00:00", "2026-01-01"]) == []
    assert found(client, "", moment__date__lte="2026-01-01") == ["a"]
    result = client.call("search_samples", moment__in=["2026-01-01T10:00:00", SKIPPED])
    assert "/moment__in: " in result.text


@SOURCES
@pytest.mark.parametrize("moment", EXTREMES)
@pytest.mark.parametrize("use_tz", [True, False])
def test_extreme_values_are_results_or_argument_errors(
    client: MCPClient, prefix: str, moment: str, use_tz: bool
):
    for zone in (BERLIN, "America/New_York", "Pacific/Auckland"):
        with override_settings(USE_TZ=use_tz), timezone.override(zone):
            made = client.call(f"{prefix}create_sample", code="a", moment=moment, data={"a": 1})
            assert made.is_error is ("/moment: " in made.text and "went wrong" not in made.text)
            if not made.is_error:
                client.call(f"{prefix}search_samples", moment__gte=moment)
                assert shown(client, prefix)
            Sample.objects.all().delete()
            searched = client.call(f"{prefix}search_samples", moment__gte=moment)
            assert searched.is_error is ("/moment__gte: " in searched.text)


@SOURCES
def test_a_default_in_the_hour_that_is_repeated_is_kept(
    client: MCPClient, prefix: str, monkeypatch: pytest.MonkeyPatch
):
    moment = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    monkeypatch.setattr(Sample._meta.get_field("moment"), "default", moment)
    Sample._meta.get_field("moment").__dict__.pop("_get_default", None)

    result = client.call(f"{prefix}create_sample", code="a", data={"a": 1})

    Sample._meta.get_field("moment").__dict__.pop("_get_default", None)
    assert not result.is_error, result.text
    assert Sample.objects.get().moment == moment


class Timed(ModelTools):
    model = Sample
    fields = ("code", "moment", "later")
    lookup_field = "code"
    writes = ("update",)
    version_field = "moment"
    writable = ("note",)
    everyone = True

    def has_permission(self, user: Any, action: str) -> bool:
        return True

    def later(self, sample: Sample) -> dict[str, list[datetime | None]]:
        return {"all": [sample.moment, None]}


class TimedAdmin(admin.ModelAdmin):
    list_display = ["code", "later"]
    fields = ["code"]

    def later(self, sample: Sample) -> Any:
        return [sample.moment, None]


def test_computed_values_have_the_offset_too(client: MCPClient):
    server, site = MCPServer("computed-moments", public=True), admin.AdminSite("computed")
    site.register(Sample, TimedAdmin)
    Timed.register(server=server)
    admin_tools(server=server, site=site, models=[Sample], prefix="admin_")
    client = MCPClient(server, user=User.objects.get())
    Sample.objects.create(code="a", moment=datetime(2026, 1, 1, 9, tzinfo=UTC))

    expected = ["2026-01-01T10:00:00+01:00", None]
    assert client.call("get_sample", code="a").structured["later"] == {"all": expected}
    assert client.call("admin_search_samples").structured["results"][0]["later"] == expected


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("zone", [BERLIN, "Asia/Kolkata"])
def test_if_unmodified_takes_the_value_that_was_shown(use_tz: bool, zone: str, client: MCPClient):
    server = MCPServer(f"versions-{use_tz}-{zone}", public=True)
    Timed.register(server=server, include=["get", "update"])
    client = MCPClient(server, user=User.objects.get())
    with override_settings(USE_TZ=use_tz, TIME_ZONE=zone), timezone.override(zone):
        moment = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
        Sample.objects.create(code="a", moment=moment if use_tz else timezone.make_naive(moment))
        seen = client.call("get_sample", code="a").structured["moment"]
        written = client.call("update_sample", code="a", note="x", if_unmodified=seen)
        other = client.call(
            "update_sample", code="a", note="y", if_unmodified="2026-01-01T00:00:00Z"
        )

    assert not written.is_error, written.text
    assert other.is_error
    assert Sample.objects.get().note == "x"


@SOURCES
@override_settings(USE_TZ=False, TIME_ZONE=BERLIN)
def test_without_use_tz_rows_are_naive_and_results_have_an_offset(client: MCPClient, prefix: str):
    result = client.call(
        f"{prefix}create_sample", code="a", moment="2026-07-01T08:00:00Z", data={"a": 1}
    )

    assert not result.is_error, result.text
    assert Sample.objects.get().moment == datetime.fromisoformat("2026-07-01T10:00:00")
    assert shown(client, prefix) == "2026-07-01T10:00:00+02:00"
    assert found(client, prefix, moment__gte="2026-07-01T08:00:00Z") == ["a"]
    assert found(client, prefix, moment__gte="2026-07-01T10:00:00") == ["a"]
    assert found(client, prefix, moment__lt="2026-07-01T08:00:00Z") == []


def test_what_a_serializer_declares_stays_its_own(client: MCPClient):
    made = client.call("rest_create", code="a", moment="2026-01-01T10:00:00")
    assert not made.is_error, made.text
    assert made.structured["moment"] == "2026-01-01T10:00:00+01:00"
