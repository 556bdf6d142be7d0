"""Reports of the recorded calls: charts and CSV."""

from __future__ import annotations

import csv
import io
import unicodedata
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import AsyncClient, Client, RequestFactory, override_settings

from django_mcp.admin.connect import call_as_texts
from django_mcp.calls import RecordedCall
from django_mcp.calls.call import upper_ms
from django_mcp.calls.rows import insert
from django_mcp.models import CallRecord, CallTally
from django_mcp.servers import MCPServer
from tests.unit.admin.test_links import page_of
from tests.unit.admin.test_pages import client_of, make_calls, url

pytestmark = pytest.mark.usefixtures("here", "fresh_cache")


@pytest.fixture
def fresh_cache() -> None:
    cache.clear()


def _tool() -> str:
    return ""


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("charted")
    for name in ("greet", "rare"):
        server.tool(name=name)(_tool)
    return server


def record_calls(server: MCPServer, count: int, name: str = "greet", **values: Any) -> None:
    now = datetime.now(UTC).timestamp()
    texts = dict.fromkeys(("reference", "principal", "client_name", "client_version"), "")
    given: dict[str, Any] = {"duration_s": 0.001, "outcome": "done", **texts, **values}
    insert(
        [
            RecordedCall(
                server=server,
                started_at=now - at,
                method="tools/call",
                name=name,
                user_id=None,
                revision="r",
                arguments="",
                **given,
            )
            for at in range(count)
        ]
    )


@pytest.mark.parametrize("span", ["hour", "day", "week"])
def test_the_charts_count_calls_errors_and_percentiles(admin: Client, server: MCPServer, span: str):
    record_calls(server, 60)
    record_calls(server, 30)
    record_calls(server, 10, duration_s=0.1, outcome="fault")
    record_calls(server, 5, name="rare")
    found = admin.get(url("charts_data"), {"span": span}).json()

    assert sum(found["calls"]) == 105
    assert sum(found["errors"]) == 10
    assert len(found["bounds"]) == len(found["times"]) + 1
    bounds = {"started_at__gte": found["bounds"][0], "started_at__lt": found["bounds"][-1]}
    listed = admin.get(url("callrecord_changelist"), {**bounds, "outcome__in": "fault,failed"})
    assert listed.context["cl"].result_count == 10
    row, rare = found["names"]
    assert (row["name"], row["calls"], row["errors"]) == ("greet", 100, 10)
    assert (rare["name"], rare["calls"], rare["errors"]) == ("rare", 5, 0)
    assert row["p50"] < row["p95"] == row["p99"]
    of_one = admin.get(url("charts_data"), {"span": span, "name": "rare"}).json()
    assert sum(of_one["calls"]) == 5
    assert of_one["names"] == found["names"]


@override_settings(
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.locale.LocaleMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ]
)
def test_cached_charts_are_rendered_in_each_users_language(admin: Client, server: MCPServer):
    record_calls(server, 1)
    told = [
        admin.get(url("charts_data"), headers={"accept-language": language}).json()["names"]
        for language in ("de", "en")
    ]

    assert [row["method"] for [row] in told] == ["Werkzeug", "tool"]


def test_charts_accept_only_known_periods(admin: Client):
    assert admin.get(url("charts_data"), {"span": "year"}).status_code == 400


@pytest.mark.parametrize("span", ["hour", "day"])
def test_unknown_names_sent_by_clients_share_one_row(admin: Client, server: MCPServer, span: str):
    for at in range(25):
        record_calls(server, 2, name=f"invented-{at}", outcome="refused", is_known=False)
    record_calls(server, 3)
    found = admin.get(url("charts_data"), {"span": span}).json()["names"]

    assert [(row["label"], row["calls"]) for row in found] == [("unknown", 50), ("greet", 3)]
    assert CallTally.objects.filter(name__startswith="invented").count() == 0


def test_charts_add_the_tallies_of_workers_of_an_earlier_version(admin: Client, server: MCPServer):
    record_calls(server, 9)
    packed = CallTally.objects.get(width=15)
    # There, each step of duration had a row.
    same = {name: getattr(packed, name) for name in ("width", "minute", "server", "method", "name")}
    CallTally.objects.create(**same, outcome="done", step=40, calls=2)
    CallTally.objects.create(**same, outcome="fault", step=80, calls=1)
    found = admin.get(url("charts_data"), {"span": "day"}).json()

    [row] = found["names"]
    assert (row["calls"], row["errors"]) == (12, 1)
    assert (row["p95"], row["p99"]) == (round(upper_ms(80), 2),) * 2
    assert row["p50"] < upper_ms(40)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"client": "desk"}, 1),
        ({"client": "other"}, 0),
        ({"username": "ada"}, 1),
        ({"username": "\0"}, 0),
        ({"session": "5" * 32}, 1),
        ({"q": "5" * 32}, 1),
        ({"error": "KeyError"}, 1),
    ],
)
def test_calls_are_found_by_client_user_session_and_error(
    admin: Client, query: dict[str, str], found: int
):
    users: Any = get_user_model().objects
    ada = users.create_user("ada")
    make_calls(1)
    make_calls(1, client_name="desktop", user=ada, session="5" * 32, error="KeyError")
    page = admin.get(url("callrecord_changelist"), query, follow=True)

    if query != {"username": "\0"}:
        assert page.context["cl"].result_count == found


def test_times_show_seconds_and_outcomes_have_a_colour(admin: Client):
    make_calls(1, outcome="fault")
    page = admin.get(url("callrecord_changelist")).content.decode()

    assert f"{CallRecord.objects.get().started_at:%H:%M:%S}" in page
    assert 'class="mcp-outcome mcp-fault"' in page


@pytest.mark.parametrize(
    ("language", "shown"), [("en", ("1,234.5 ms", "10,001")), ("de", ("1.234,5 ms", "10.001"))]
)
def test_numbers_are_written_as_the_language_does(
    admin: Client, language: str, shown: tuple[str, ...]
):
    make_calls(1, result_chars=40_001)
    CallRecord.objects.update(duration_ms=1234.5)
    page = admin.get(url("callrecord_changelist"), headers={"accept-language": language})

    assert all(f">{number}<" in page.content.decode() for number in shown)


# -- copies


def test_a_call_with_stored_arguments_can_be_copied(admin: Client):
    server = MCPServer("copied")

    @server.tool(record_arguments=True)
    def greet(name: str) -> str:
        return name

    make_calls(1, server="copied", arguments='{"name": "it\'s"}')
    copies = dict(page_of(admin, CallRecord.objects.get()).context["copies"])

    ran: dict[str, Any] = {}
    exec(copies["Python"].replace("print(", "found = ("), ran)
    assert ran["found"].text == "it's"


def test_curl_copies_also_work_for_a_server_with_a_title(admin: Client):
    server = MCPServer("copied", title="Copies", public=True)
    server.tool(name="greet", record_arguments=True)(_tool)
    make_calls(1, server="copied", arguments="{}")
    call = CallRecord.objects.get()
    urls = ModuleType("urls")
    urls.urlpatterns = server.urls[0]  # type: ignore[attr-defined]

    with override_settings(ROOT_URLCONF=urls, ALLOWED_HOSTS=["testserver"]):
        copies = dict(call_as_texts(RequestFactory().get("/"), call))

    assert "curl http://testserver/mcp" in copies["curl"]


def test_a_call_with_only_argument_types_cannot_be_copied(admin: Client):
    make_calls(1, arguments='{"name": "string"}')

    assert page_of(admin, CallRecord.objects.get()).context["copies"] == []


# -- export


def rows_of(response: Any) -> list[dict[str, str]]:
    text = b"".join(response.streaming_content).decode()
    return list(csv.DictReader(text.splitlines()))


def test_the_export_contains_the_listed_calls_and_escapes_formulas(admin: Client):
    make_calls(2, name="=1+1", client_name="@x", principal="-p")
    make_calls(1, name="other")
    rows = rows_of(admin.get(url("calls_export"), {"name": "=1+1"}))

    assert [(row["name"], row["client_name"], row["principal"]) for row in rows] == [
        ("'=1+1", "'@x", "'-p")
    ] * 2
    assert LogEntry.objects.get().change_message == "Exported."


@pytest.mark.parametrize(
    "text",
    [
        "=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "\n=1+1", "\r\n=1", "\t=1", '"=1', "\u00a0=1", "\u3000=1", "\uff1d1+1",
        "\uff0b1", "\uff0d1", "\uff20x", "\ufe66x", "\u22121", "a;=1+1", "a; =1", "a|=1", "a\t=1", "a\n=1", 'a;"=1"',
    ],
)  # fmt: skip
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_no_cell_of_the_export_starts_a_formula_whatever_separates_cells(
    admin: Client, text: str, delimiter: str
):
    make_calls(1, name=text)
    response: Any = admin.get(url("calls_export"))
    whole = b"".join(response.streaming_content).decode()

    for row in csv.reader(io.StringIO(whole, newline=""), delimiter=delimiter):
        for cell in row:
            start = cell.lstrip('" \t\r\n\u00a0\u3000')[:1]
            assert unicodedata.normalize("NFKC", start) not in ("=", "+", "-", "@", "\u2212"), cell


def test_a_cell_without_a_formula_is_exported_as_it_is(admin: Client):
    make_calls(1, name="a = b; c - d", client_name='{"a": -1}')

    (row,) = rows_of(admin.get(url("calls_export")))
    assert (row["name"], row["client_name"]) == ("a = b; c - d", '{"a": -1}')


def test_the_export_streams_under_asgi(admin: Client):
    make_calls(3)

    async def read() -> bytes:
        client = AsyncClient()
        client.cookies = admin.cookies
        response: Any = await client.get(url("calls_export"))
        return b"".join([each async for each in response.streaming_content])

    assert len(async_to_sync(read)().splitlines()) == 4


def test_the_export_requires_its_own_permission():
    viewer = client_of("viewer", "view_callrecord")
    assert viewer.get(url("calls_export")).status_code == 403
    assert "export_url" not in viewer.get(url("callrecord_changelist")).context
    assert client_of("only", "export_callrecord").get(url("calls_export")).status_code == 403
    both = client_of("both", "view_callrecord", "export_callrecord")
    assert both.get(url("calls_export")).status_code == 200
