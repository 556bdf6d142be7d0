"""Admission: the checks of a request before anything is looked up or run.

They depend on the message, its headers and what the server offers only. The first check that fails
gives the response. Whether a request is stateless is decided here, for each message; the order of the
checks is the specification's where it has one (2026-07-28 basic/transports, basic/versioning).
"""

from __future__ import annotations

from collections.abc import Container

from django_mcp.protocol import meta as keys
from django_mcp.protocol.client_details import limit_client_details
from django_mcp.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    Refusal,
)
from django_mcp.protocol.headers import METHOD, PROTOCOL_VERSION, Headers, check_name
from django_mcp.protocol.levels import LOG_LEVELS, find_requested_level
from django_mcp.protocol.media import admits_event_stream
from django_mcp.protocol.messages import Batch, Request
from django_mcp.protocol.revisions import (
    REVISIONS,
    UNSTATED_HTTP_REVISION,
    Revision,
    RevisionSet,
    find_revision,
    has_handshake,
)
from django_mcp.server.exchange.connection import ConnectionState


def admit(
    request: Request,
    headers: Headers | None,
    connection: ConnectionState | None,
    revisions: RevisionSet,
    offered: Container[str],
) -> ConnectionState | Refusal:
    """Return the connection a request is to be served on, or why it is not served.

    Args:
        request: the message.
        headers: of its HTTP request; None where the transport has none, and no header is asked for.
        connection: what is known from before; None when the request has to speak for itself.
        revisions: those the server speaks.
        offered: the features it offers on this transport (`"tools"`, `"logging"`, ...).

    Returns:
        A connection with its revision set, except for `initialize`, which settles it.
    """
    meta = request.params.get("_meta")
    version = meta.get(keys.PROTOCOL_VERSION) if type(meta) is dict else None
    known = version
    if version is None and connection is not None and connection.revision is not None:
        known = connection.revision.name
    if headers is None:
        header = None
    elif type(known) is str and headers.says(PROTOCOL_VERSION, known):
        # The commonest by far, without decoding it.
        header = known
    else:
        header = headers.get(PROTOCOL_VERSION)
    revision = revisions.stateless_by_name.get(version) if type(version) is str else None
    if revision is not None or is_stateless(request.method, header, version):
        return _admit_stateless(request, headers, header, revision, revisions, offered)
    if request.method == "initialize":
        return _admit_handshake(request, headers, revisions)
    return _admit_handshaken(request, headers, connection, revisions, offered)


def may_have_session(headers: Headers) -> bool:
    """Return whether the headers leave it open that a message belongs to a session: most do not.

    With a version that nobody knows it does not either: it is refused whatever else it says.
    """
    found = _MAY_HAVE_SESSION.get(headers.by_name.get(_VERSION))
    # None: it is unknown, or written with blanks around it.
    return has_handshake(headers.get(PROTOCOL_VERSION)) if found is None else found


_VERSION = PROTOCOL_VERSION.encode()
_MAY_HAVE_SESSION: dict[bytes | None, bool] = {
    None: True,
    **{each.name.encode(): not each.is_stateless for each in REVISIONS},
}
"""By the header as it stands there, since every request asks."""


def is_stateless(method: str, header: str | None, version: object) -> bool:
    """Return whether a request is to be judged by the rules of the stateless revisions.

    Args:
        method: the request's.
        header: the value of `MCP-Protocol-Version`, if any.
        version: what `_meta` names as its protocol version, None if it does not.
    """
    if version is None:
        # A bare initialize is a handshake whatever the header says: clients that fell back
        # from a probe are known to leave the probe's header on it.
        if method == "initialize" or header is None:
            return False
        return not has_handshake(header)
    return not has_handshake(version) or (header is not None and not has_handshake(header))


def _admit_stateless(
    request: Request,
    headers: Headers | None,
    header: str | None,
    revision: Revision | None,
    revisions: RevisionSet,
    offered: Container[str],
) -> ConnectionState | Refusal:
    if not revisions.stateless:
        # On a pipe, what a server says that never heard of stateless revisions.
        return _needs_handshake(revisions, METHOD_NOT_FOUND if headers is None else INVALID_REQUEST)
    meta = request.params.get("_meta")
    if type(meta) is not dict:
        meta = {}
    if keys.PROTOCOL_VERSION not in meta and header is not None and find_revision(header) is None:
        # No enabled revision has this version.
        return _unsupported(header, revisions)
    version, capabilities = meta.get(keys.PROTOCOL_VERSION), meta.get(keys.CLIENT_CAPABILITIES)
    if type(version) is not str:
        return _missing_meta(keys.PROTOCOL_VERSION)
    if type(capabilities) is not dict:
        return _missing_meta(keys.CLIENT_CAPABILITIES)
    # Repeated it would have a comma in it, as no version has.
    if headers is not None and header != version:
        return _mismatch(f"The header MCP-Protocol-Version must be {version!r:.100}, as in _meta")
    if revision is None:
        return _unsupported(version, revisions)
    refusal = _refuse_method(request, headers, revision, offered)
    if refusal is not None:
        return refusal
    level, client_info = meta.get(keys.LOG_LEVEL), meta.get(keys.CLIENT_INFO)
    if level is not None and not (type(level) is str and level in LOG_LEVELS):
        return Refusal(
            code=INVALID_PARAMS,
            message=f"{keys.LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}",
            status=revision.status(INVALID_PARAMS),
        )
    return ConnectionState(
        revision,
        client_info=client_info if type(client_info) is dict else None,
        client_capabilities=capabilities,
        log_level=level,
        is_transient=True,
    )


def _refuse_method(
    request: Request, headers: Headers | None, revision: Revision, offered: Container[str]
) -> Refusal | None:
    rule = revision.methods.get(request.method)
    if headers is not None and revision.mirrors_headers:
        # Repeated it would have a comma in it, as no method has.
        if not headers.says(METHOD, request.method) and headers.get(METHOD) != request.method:
            return _mismatch("The header Mcp-Method must be there once and equal the method")
        expected = request.params.get(rule.mirrored_param or "") if rule is not None else None
        # What is not a string is refused for itself by the method.
        problem = check_name(expected, headers) if type(expected) is str else None
        if problem is not None:
            return _mismatch(problem)
    if rule is None:
        return _unknown_method(request.method, revision)
    if rule.feature is not None and rule.feature not in offered:
        if rule.feature == "listen" and headers is not None and not _takes_events(headers):
            return _NEEDS_EVENTS
        return _unknown_method(request.method, revision)
    return None


_NEEDS_EVENTS = Refusal(
    code=INVALID_REQUEST,
    message="This is answered with text/event-stream, which the header Accept does not admit",
    status=406,
)


def _takes_events(headers: Headers) -> bool:
    return admits_event_stream(headers.get("accept"))


def _admit_handshake(
    request: Request, headers: Headers | None, revisions: RevisionSet
) -> ConnectionState | Refusal:
    if not revisions.handshake:
        names = ", ".join(revisions.stateless_names)
        return Refusal(
            code=HEADER_MISMATCH if headers is not None else UNSUPPORTED_PROTOCOL_VERSION,
            message=f"This server has no handshake; it speaks {names}, request by request",
            data={
                "supported": revisions.stateless_names,
                "requested": _short(request.params.get("protocolVersion")),
            },
            status=400,
        )
    requested = request.params.get("protocolVersion")
    if type(requested) is not str:
        return Refusal(code=INVALID_PARAMS, message="protocolVersion must be a string", status=200)
    capabilities = request.params.get("capabilities", {})
    if type(capabilities) is not dict:
        return Refusal(code=INVALID_PARAMS, message="capabilities must be an object", status=200)
    client_info = request.params.get("clientInfo")
    details = limit_client_details(client_info if type(client_info) is dict else None, capabilities)
    if isinstance(details, Refusal):
        return details
    return ConnectionState(
        revisions.negotiate(requested),
        client_info=details[0],
        client_capabilities=details[1],
        log_level=find_requested_level(details[1]),
    )


def _admit_handshaken(
    request: Request,
    headers: Headers | None,
    connection: ConnectionState | None,
    revisions: RevisionSet,
    offered: Container[str],
) -> ConnectionState | Refusal:
    if not revisions.handshake:
        return _missing_meta(keys.PROTOCOL_VERSION, keys.CLIENT_CAPABILITIES)
    revision: Revision | Refusal
    if connection is not None and connection.revision is not None:
        revision = connection.revision
    elif connection is None:
        revision = _unstated(headers, revisions)
    elif request.method == "ping":
        revision = revisions.handshake[-1]
    else:
        return _missing_meta(keys.PROTOCOL_VERSION, keys.CLIENT_CAPABILITIES)
    if isinstance(revision, Refusal):
        return revision
    rule = revision.methods.get(request.method)
    if rule is None or (rule.feature is not None and rule.feature not in offered):
        return _unknown_method(request.method, revision)
    if connection is not None and connection.revision is revision:
        return connection
    return ConnectionState(revision, is_transient=True)


def _unstated(headers: Headers | None, revisions: RevisionSet) -> Revision | Refusal:
    """Return the revision of a request that comes without a session."""
    header = headers.get(PROTOCOL_VERSION) if headers is not None else None
    if header is not None:
        revision = revisions.find(header)
        return revision if revision is not None else _unsupported(header, revisions)
    if headers is not None and UNSTATED_HTTP_REVISION in revisions.handshake:
        return UNSTATED_HTTP_REVISION
    return revisions.handshake[-1]


def refuse_version(headers: Headers | None, revisions: RevisionSet) -> Refusal | None:
    """Return why a notification or response is turned away for the version it is sent under.

    Source: 2025-06-18 basic/transports "Protocol Version Header": an unknown one is 400, always.
    """
    header = headers.get(PROTOCOL_VERSION) if headers is not None else None
    if header is None or revisions.find(header) is not None:
        return None
    return _unsupported(header, revisions)


def refuse_batch(
    batch: Batch,
    headers: Headers | None,
    connection: ConnectionState | None,
    revisions: RevisionSet,
    max_batch: int,
) -> Refusal | None:
    """Return why a batch is turned away as a whole; None when its members are to be answered.

    Source: 2025-03-26 basic "Batching"; `initialize` is never part of one.
    """
    revision: Revision | Refusal | None = connection.revision if connection is not None else None
    if connection is None and revisions.handshake:
        revision = _unstated(headers, revisions)
    if isinstance(revision, Refusal):
        return revision
    if revision is None or not revision.accepts_batches:
        message = "Batches are not part of this protocol version"
    elif len(batch.messages) > max_batch:
        message = f"A batch may hold at most {max_batch} messages"
    elif any(isinstance(each, Request) and each.method == "initialize" for each in batch.messages):
        message = "initialize must not be part of a batch"
    else:
        return None
    return Refusal(code=INVALID_REQUEST, message=message, status=400)


def _missing_meta(*wanted: str) -> Refusal:
    return Refusal(
        code=INVALID_PARAMS,
        message=f"params._meta must hold {' and '.join(wanted)}",
        status=400,
    )


def _mismatch(message: str) -> Refusal:
    return Refusal(code=HEADER_MISMATCH, message=message, status=400)


def _needs_handshake(revisions: RevisionSet, code: int) -> Refusal:
    return Refusal(
        code=code,
        message=f"This server speaks {', '.join(revisions.names())}; send initialize first",
        status=400,
    )


def _unsupported(requested: str, revisions: RevisionSet) -> Refusal:
    if not revisions.stateless:
        # No code of the stateless revisions: that tells a client of both kinds to shake hands.
        return _needs_handshake(revisions, INVALID_REQUEST)
    return Refusal(
        code=UNSUPPORTED_PROTOCOL_VERSION,
        message="Unsupported protocol version",
        data={
            "supported": revisions.stateless_names,
            "requested": _short(requested),
        },
        status=400,
    )


def _unknown_method(method: str, revision: Revision) -> Refusal:
    return Refusal(
        code=METHOD_NOT_FOUND,
        message=f"Unknown method: {_short(method)}",
        status=revision.status(METHOD_NOT_FOUND),
    )


def _short(value: object) -> str | None:
    return value[:200] if isinstance(value, str) else None
