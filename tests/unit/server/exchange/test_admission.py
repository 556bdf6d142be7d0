"""Admission: which request is served under which revision, and which check rejects the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    Refusal,
)
from django_mcp.protocol.headers import Headers
from django_mcp.protocol.messages import Batch, Request
from django_mcp.protocol.revisions import REVISIONS, RevisionSet
from django_mcp.server.exchange.admission import admit, check_batch, check_version, if_streaming
from django_mcp.server.exchange.connection import ConnectionState
from tests.unit.protocol.test_json import json_values

V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28 = REVISIONS
ALL = RevisionSet()
OFFERED = {"tools", "resources", "prompts", "completions", "logging", if_streaming("listen")}
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def stateless(method: str = "tools/list", **meta: Any) -> Request:
    return Request(1, method, {"_meta": {VERSION: V2026_07_28.name, CAPABILITIES: {}, **meta}})


def sent(**headers: str) -> Headers:
    return Headers([(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()])


GOOD = sent(mcp_protocol_version=V2026_07_28.name, mcp_method="tools/list")


def climb(
    request: Request,
    headers: Headers | None = None,
    connection: ConnectionState | None = None,
    revisions: RevisionSet = ALL,
) -> ConnectionState | Refusal:
    return admit(request, headers, connection, revisions, OFFERED, {})


def refused(outcome: ConnectionState | Refusal) -> tuple[int | None, int]:
    assert isinstance(outcome, Refusal), outcome
    return outcome.status, outcome.code


def served(outcome: ConnectionState | Refusal) -> Any:
    assert isinstance(outcome, ConnectionState), outcome
    return outcome.revision


def test_a_stateless_request_carries_all_client_details() -> None:
    info = {"name": "c", "version": "1"}
    said: dict[str, Any] = {
        "io.modelcontextprotocol/clientInfo": info,
        CAPABILITIES: {"roots": {}},
    }

    outcome = climb(stateless(**said), GOOD)

    assert served(outcome) is V2026_07_28
    assert isinstance(outcome, ConnectionState)
    assert outcome.client_info == info
    assert outcome.client_capabilities == {"roots": {}}
    assert outcome.is_transient
    assert served(climb(stateless(), GOOD)) is V2026_07_28


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"_meta": {}},
        {"_meta": []},
        {"_meta": {CAPABILITIES: {}}},
        {"_meta": {VERSION: V2026_07_28.name}},
        {"_meta": {VERSION: V2026_07_28.name, CAPABILITIES: []}},
        {"_meta": {VERSION: 5, CAPABILITIES: {}}},
    ],
)
def test_required_meta_fields_are_checked_first(params: Any) -> None:
    assert refused(
        climb(Request(1, "no/such", params), sent(mcp_protocol_version=V2026_07_28.name))
    ) == (
        400,
        INVALID_PARAMS,
    )


@pytest.mark.parametrize(
    "headers",
    [
        sent(),
        sent(mcp_method="tools/list"),
        sent(mcp_protocol_version=V2025_11_25.name, mcp_method="tools/list"),
        sent(mcp_protocol_version="v999", mcp_method="tools/list"),
        Headers(
            [(b"mcp-protocol-version", V2026_07_28.name.encode())] * 2
            + [(b"mcp-method", b"tools/list")]
        ),
    ],
)
def test_the_version_header_must_match_the_body(headers: Headers) -> None:
    assert refused(climb(stateless(), headers)) == (400, HEADER_MISMATCH)


def test_a_header_mismatch_is_reported_before_an_unsupported_version() -> None:
    request = stateless(**{VERSION: "v999.0.0"})

    assert refused(climb(request, GOOD)) == (400, HEADER_MISMATCH)


def test_an_unsupported_version_error_lists_the_supported_ones() -> None:
    outcome = climb(stateless(**{VERSION: "v999.0.0"}), sent(mcp_protocol_version="v999.0.0"))

    assert refused(outcome) == (400, UNSUPPORTED_PROTOCOL_VERSION)
    assert isinstance(outcome, Refusal)
    assert outcome.data == {"supported": [V2026_07_28.name], "requested": "v999.0.0"}


@pytest.mark.parametrize("method", ["TOOLS/LIST", "tools/call", None])
def test_the_method_header_must_match_exactly(method: str | None) -> None:
    extra = {} if method is None else {"mcp_method": method}

    outcome = climb(stateless(), sent(mcp_protocol_version=V2026_07_28.name, **extra))

    assert refused(outcome) == (400, HEADER_MISMATCH)


@pytest.mark.parametrize(
    ("method", "param"),
    [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")],
)
@pytest.mark.parametrize("name", ["b", None, "A"])
def test_the_name_header_must_match_the_parameter(
    method: str, param: str, name: str | None
) -> None:
    request = stateless(method)
    request.params[param] = "a"
    right = sent(mcp_protocol_version=V2026_07_28.name, mcp_method=method, mcp_name="a")
    extra = {} if name is None else {"mcp_name": name}
    wrong = sent(mcp_protocol_version=V2026_07_28.name, mcp_method=method, **extra)

    assert served(climb(request, right)) is V2026_07_28
    assert refused(climb(request, wrong)) == (400, HEADER_MISMATCH)


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "unknown/method",
        "__class__",
    ],
)
def test_methods_missing_in_the_stateless_revision_are_not_found(method: str) -> None:
    headers = sent(mcp_protocol_version=V2026_07_28.name, mcp_method=method)

    assert refused(climb(stateless(method), headers)) == (404, METHOD_NOT_FOUND)


def test_a_method_of_an_unavailable_feature_is_not_found() -> None:
    headers = sent(mcp_protocol_version=V2026_07_28.name, mcp_method="tools/list")

    assert refused(admit(stateless(), headers, None, ALL, set(), {})) == (404, METHOD_NOT_FOUND)
    legacy = admit(Request(1, "tools/list", {}), sent(), None, ALL, set(), {})
    assert refused(legacy) == (200, METHOD_NOT_FOUND)


def test_an_unknown_log_level_is_an_invalid_parameter() -> None:
    outcome = climb(stateless(**{"io.modelcontextprotocol/logLevel": "verbose"}), GOOD)

    assert isinstance(outcome, Refusal)
    assert outcome.code == INVALID_PARAMS


def test_the_first_failing_check_determines_the_error() -> None:
    """A request with every error reports them one after the other."""
    request = stateless("no/such", **{CAPABILITIES: 5, VERSION: "v999"})
    headers = {"mcp_protocol_version": V2025_11_25.name, "mcp_method": "tools/list"}
    meta = request.params["_meta"]

    assert refused(climb(request, sent(**headers))) == (400, INVALID_PARAMS)
    meta[CAPABILITIES] = {}
    assert refused(climb(request, sent(**headers))) == (400, HEADER_MISMATCH)
    headers["mcp_protocol_version"] = "v999"
    assert refused(climb(request, sent(**headers))) == (400, UNSUPPORTED_PROTOCOL_VERSION)
    headers["mcp_protocol_version"] = meta[VERSION] = V2026_07_28.name
    assert refused(climb(request, sent(**headers))) == (400, HEADER_MISMATCH)
    headers["mcp_method"] = "no/such"
    assert refused(climb(request, sent(**headers))) == (404, METHOD_NOT_FOUND)


def test_headers_are_not_required_by_transports_without_them() -> None:
    assert served(climb(stateless())) is V2026_07_28


@pytest.mark.parametrize(
    "header", [None, V2024_11_05.name, V2025_11_25.name, V2026_07_28.name, "v999"]
)
def test_a_bare_initialize_is_a_handshake_regardless_of_the_header(header: str | None) -> None:
    headers = sent() if header is None else sent(mcp_protocol_version=header)

    outcome = climb(Request(1, "initialize", {"protocolVersion": V2025_06_18.name}), headers)

    assert served(outcome) is V2025_06_18


@pytest.mark.parametrize(
    "params", [{}, {"protocolVersion": 5}, {"protocolVersion": V2025_11_25.name, "capabilities": 1}]
)
def test_a_malformed_initialize_is_an_invalid_parameter(params: Any) -> None:
    assert refused(climb(Request(1, "initialize", params), sent())) == (200, INVALID_PARAMS)


@pytest.mark.parametrize("revision", [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25])
def test_without_a_session_the_header_names_the_revision(revision: Any) -> None:
    assert served(
        climb(Request(1, "tools/list", {}), sent(mcp_protocol_version=revision.name))
    ) is (revision)


def test_without_a_header_the_second_revision_is_assumed() -> None:
    assert served(climb(Request(1, "tools/list", {}), sent())) is V2025_03_26
    without = RevisionSet([V2025_06_18.name, V2025_11_25.name, V2026_07_28.name])
    assert served(climb(Request(1, "tools/list", {}), sent(), revisions=without)) is V2025_11_25


def test_an_unknown_version_header_is_rejected() -> None:
    for params in ({}, {"_meta": {"progressToken": 1}}, {"_meta": None}):
        outcome = climb(Request(1, "tools/list", params), sent(mcp_protocol_version="9999-01-01"))
        assert refused(outcome) == (400, -32022)

    assert check_version(sent(mcp_protocol_version="9999-01-01"), ALL) is not None
    assert check_version(sent(mcp_protocol_version=V2025_06_18.name), ALL) is None
    assert check_version(sent(), ALL) is None


@pytest.mark.parametrize(("accept", "status"), [("application/json", 406), ("*/*", 404)])
def test_listening_requires_accepting_an_event_stream(accept: str, status: int) -> None:
    """A client that does not accept one gets an error; without streams, the method is not found."""
    headers = sent(
        mcp_protocol_version=V2026_07_28.name, mcp_method="subscriptions/listen", accept=accept
    )

    assert refused(climb(stateless("subscriptions/listen"), headers))[0] == status


def test_an_extra_meta_key_does_not_make_a_request_stateless() -> None:
    request = Request(1, "tools/list", {"_meta": {"progressToken": 1, "traceparent": "x"}})

    assert served(climb(request, sent(mcp_protocol_version=V2025_11_25.name))) is V2025_11_25


def test_meta_with_an_older_revision_is_served_under_it() -> None:
    request = Request(1, "tools/list", {"_meta": {VERSION: V2025_11_25.name}})

    assert served(climb(request, sent(mcp_protocol_version=V2025_11_25.name))) is V2025_11_25


def test_a_server_without_handshake_lists_its_versions() -> None:
    modern = RevisionSet([V2026_07_28.name])
    bare = Request(1, "initialize", {"protocolVersion": V2025_11_25.name})

    over_http = climb(bare, sent(), revisions=modern)
    in_process = climb(bare, None, revisions=modern)

    assert refused(over_http) == (400, HEADER_MISMATCH)
    assert refused(in_process) == (400, UNSUPPORTED_PROTOCOL_VERSION)
    assert isinstance(over_http, Refusal)
    assert V2026_07_28.name in over_http.message
    assert over_http.data["supported"] == [V2026_07_28.name]


def test_a_handshake_only_server_rejects_discover_as_invalid_request() -> None:
    legacy = RevisionSet([V2025_06_18.name, V2025_11_25.name])

    outcome = climb(stateless("server/discover"), GOOD, revisions=legacy)

    assert refused(outcome) == (400, INVALID_REQUEST)


def test_a_connection_must_initialize_before_requests() -> None:
    fresh = ConnectionState()

    assert served(climb(Request(1, "ping", {}), None, fresh)) is V2025_11_25
    assert refused(climb(Request(1, "tools/list", {}), None, fresh))[1] == INVALID_PARAMS


def test_a_connection_keeps_its_negotiated_revision() -> None:
    settled = ConnectionState(V2024_11_05)

    assert climb(Request(1, "tools/list", {}), None, settled) is settled


def test_batches_are_accepted_only_in_their_revision() -> None:
    one = Batch([Request(1, "ping", {})])

    def batch(headers: Headers | None, connection: Any = None, members: Any = one) -> Any:
        return check_batch(members, headers, connection, ALL, 3)

    assert batch(sent()) is None
    assert batch(sent(mcp_protocol_version=V2025_03_26.name)) is None
    assert batch(None, ConnectionState(V2025_03_26)) is None
    for revision in (V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28):
        assert refused(batch(sent(mcp_protocol_version=revision.name))) == (400, INVALID_REQUEST)
    assert refused(batch(None, ConnectionState(V2025_06_18))) == (400, INVALID_REQUEST)
    with_handshake = Batch([Request(1, "initialize", {})])
    assert refused(batch(sent(), members=with_handshake)) == (400, INVALID_REQUEST)
    assert refused(batch(sent(), members=Batch([Request(1, "ping", {})] * 4)))[0] == 400


header_names = st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name", "accept", "x"])
header_values = st.sampled_from(
    [r.name for r in REVISIONS] + ["tools/list", "", "=?base64?!?="]
) | st.text(st.characters(codec="latin-1"), max_size=8)


@given(
    method=st.sampled_from([*V2025_11_25.methods, *V2026_07_28.methods]) | st.text(max_size=8),
    params=st.dictionaries(
        st.sampled_from(["_meta", "name", "uri", "protocolVersion", "capabilities"]),
        json_values
        | st.dictionaries(
            st.sampled_from([VERSION, CAPABILITIES]),
            st.sampled_from([V2026_07_28.name, V2025_11_25.name, "x"]) | json_values,
        ),
    ),
    raw=st.lists(st.tuples(header_names, header_values)) | st.none(),
)
def test_every_request_is_served_or_rejected(method: str, params: Any, raw: Any) -> None:
    headers = None if raw is None else Headers([(k.encode(), v.encode("latin-1")) for k, v in raw])

    outcome = climb(Request(1, method, params), headers)

    if isinstance(outcome, Refusal):
        assert outcome.status in (200, 400, 404)
    else:
        assert outcome.revision is not None
