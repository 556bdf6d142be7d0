"""Admission: the checks of a request before anything is looked up or run.

They depend only on the message, its headers and the server's features. The first check that fails
gives the response. They also decide, for each message, whether it is stateless. The order is that
of the specification where it has one (2026-07-28 basic/transports, basic/versioning).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TypeAlias

from django_mcp.protocol import meta as keys
from django_mcp.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    Refusal,
    invalid_params,
    invalid_request,
)
from django_mcp.protocol.headers import (
    METHOD,
    PROTOCOL_VERSION,
    Headers,
    admits_event_stream,
    check_name,
)
from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.levels import LOG_LEVELS, find_requested_level
from django_mcp.protocol.messages import Batch, Request
from django_mcp.protocol.revisions import (
    REVISIONS,
    UNSTATED_HTTP_REVISION,
    MethodRule,
    Revision,
    RevisionSet,
    find_revision,
    has_handshake,
)
from django_mcp.protocol.sanitize import limit_client_details
from django_mcp.server.exchange.connection import ConnectionState

AddedRules: TypeAlias = Mapping[tuple[str, str], MethodRule]
"""Rules of methods that are no part of the protocol, by the name of the revision and of the method."""


def admit(
    request: Request,
    headers: Headers | None,
    connection: ConnectionState | None,
    revisions: RevisionSet,
    offered: Container[str],
    added: AddedRules,
) -> ConnectionState | Refusal:
    """Return the connection that a request is served on, with its revision, or a refusal.

    Without headers, as on a pipe, none is required. `connection` is the one that it arrived on, if that
    lasts, and `offered` are the server's features on this transport (`"tools"`, `"logging"`, ...), with
    those that it would have for clients that accept event streams, as `if_streaming` names them, and those
    that it would have if nothing buffered its responses, as `if_unbuffered` does. `added` are the rules of
    methods that extensions add.
    """
    meta = request.params.get("_meta")
    version = meta.get(keys.PROTOCOL_VERSION) if type(meta) is dict else None
    known = version
    if version is None and connection is not None and connection.revision is not None:
        known = connection.revision.name
    if headers is None:
        header = None
    elif type(known) is str and headers.says(PROTOCOL_VERSION, known):
        # The usual case, without decoding the header.
        header = known
    else:
        header = headers.get(PROTOCOL_VERSION)
    revision = revisions.stateless_by_name.get(version) if type(version) is str else None
    if revision is not None or _is_stateless(request.method, header, version):
        meta = meta if type(meta) is dict else {}
        return _admit_stateless(request, meta, headers, header, revision, revisions, offered, added)
    if request.method == "initialize":
        return _admit_handshake(request, headers, revisions)
    return _admit_handshaken(request, headers, connection, revisions, offered, added)


def may_have_session(headers: Headers) -> bool:
    """Return whether a message may belong to a session, by its headers.

    One with an unknown version does not: it is refused anyway.
    """
    may_have = _MAY_HAVE_SESSION.get(headers.by_name.get(_VERSION))
    # None: the version is unknown, or has blanks around it.
    return has_handshake(headers.get(PROTOCOL_VERSION)) if may_have is None else may_have


_VERSION = PROTOCOL_VERSION.encode()
_MAY_HAVE_SESSION: dict[bytes | None, bool] = {
    None: True,
    **{
        known_revision.name.encode(): not known_revision.is_stateless
        for known_revision in REVISIONS
    },
}
"""By the undecoded header, since every request is looked up."""


def _is_stateless(method: str, header: str | None, version: object) -> bool:
    """Return whether the header or `_meta` names a version other than those with a handshake."""
    if version is None and method == "initialize":
        # Clients that fall back after a probe are known to send its header with initialize.
        return False
    return (version is not None and not has_handshake(version)) or (
        header is not None and not has_handshake(header)
    )


def _admit_stateless(
    request: Request,
    meta: JSONObject,
    headers: Headers | None,
    header: str | None,
    revision: Revision | None,
    revisions: RevisionSet,
    offered: Container[str],
    added: AddedRules,
) -> ConnectionState | Refusal:
    if not revisions.stateless:
        # On a pipe, respond as a server without stateless revisions does.
        return _needs_handshake(revisions, METHOD_NOT_FOUND if headers is None else INVALID_REQUEST)
    version, capabilities = meta.get(keys.PROTOCOL_VERSION), meta.get(keys.CLIENT_CAPABILITIES)
    if type(version) is not str:
        is_stated = keys.PROTOCOL_VERSION in meta
        if not is_stated and header is not None and find_revision(header) is None:
            # No enabled revision has this version.
            return _unsupported(header, revisions)
        return _missing_meta(keys.PROTOCOL_VERSION)
    if type(capabilities) is not dict:
        return _missing_meta(keys.CLIENT_CAPABILITIES)
    # A repeated header has a comma in it, which no version has.
    if headers is not None and header != version:
        message = f"The header MCP-Protocol-Version must be {version!r:.100}, as in _meta"
        return _refuse(HEADER_MISMATCH, message)
    if revision is None:
        return _unsupported(version, revisions)
    refusal = _check_method(request, headers, revision, offered, added)
    if refusal is not None:
        return refusal
    level, client_info = meta.get(keys.LOG_LEVEL), meta.get(keys.CLIENT_INFO)
    if level is not None and not (type(level) is str and level in LOG_LEVELS):
        message = f"{keys.LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}"
        return invalid_params(message, revision.status(INVALID_PARAMS))
    return ConnectionState(
        revision,
        client_info=client_info if type(client_info) is dict else None,
        client_capabilities=capabilities,
        log_level=level,
        is_transient=True,
    )


def _check_method(
    request: Request,
    headers: Headers | None,
    revision: Revision,
    offered: Container[str],
    added: AddedRules,
) -> Refusal | None:
    rule = revision.methods.get(request.method)
    if rule is None:
        rule = added.get((revision.name, request.method))
    if headers is not None and revision.mirrors_headers:
        # A repeated header has a comma in it, which no method has.
        if not headers.says(METHOD, request.method) and headers.get(METHOD) != request.method:
            message = "The header Mcp-Method must be there once and equal the method"
            return _refuse(HEADER_MISMATCH, message)
        expected = request.params.get(rule.mirrored_param or "") if rule is not None else None
        # The method refuses what is not a string.
        problem = check_name(expected, headers) if type(expected) is str else None
        if problem is not None:
            return _refuse(HEADER_MISMATCH, problem)
    if rule is None:
        return unknown_method(request.method, revision)
    if rule.feature is not None and rule.feature not in offered:
        accept = headers.get("accept") if headers is not None else None
        if if_streaming(rule.feature) in offered and not admits_event_stream(accept):
            return invalid_request(_NEEDS_STREAM, 406)
        why = _NEEDS_ASGI if if_unbuffered(rule.feature) in offered else ""
        return unknown_method(request.method, revision, why)
    return None


def if_streaming(feature: str) -> str:
    """Return the name of a feature that a server has on a transport if the client accepts event streams."""
    return f"{feature} on streams"


def if_unbuffered(feature: str) -> str:
    """Return the name of a feature that a server has on a transport unless that buffers the response."""
    return f"{feature} without a buffer"


_NEEDS_STREAM = (
    "This method needs a stream, which the header Accept does not admit: send "
    "'Accept: application/json, text/event-stream'"
)

_NEEDS_ASGI = ". It needs ASGI, and this site is served over WSGI"


def _admit_handshake(
    request: Request, headers: Headers | None, revisions: RevisionSet
) -> ConnectionState | Refusal:
    if not revisions.handshake:
        names = ", ".join(revisions.stateless_names)
        return _refuse(
            HEADER_MISMATCH if headers is not None else UNSUPPORTED_PROTOCOL_VERSION,
            f"This server has no handshake; it speaks {names}, request by request",
            _versions(request.params.get("protocolVersion"), revisions),
        )
    requested = request.params.get("protocolVersion")
    if type(requested) is not str:
        return invalid_params("protocolVersion must be a string", 200)
    capabilities = request.params.get("capabilities", {})
    if type(capabilities) is not dict:
        return invalid_params("capabilities must be an object", 200)
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
    added: AddedRules,
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
    refusal = _check_method(request, headers, revision, offered, added)
    if refusal is not None:
        return refusal
    if connection is not None and connection.revision is revision:
        return connection
    return ConnectionState(revision, is_transient=True)


def _unstated(headers: Headers | None, revisions: RevisionSet) -> Revision | Refusal:
    header = headers.get(PROTOCOL_VERSION) if headers is not None else None
    if header is not None:
        revision = revisions.find(header)
        return revision if revision is not None else _unsupported(header, revisions)
    return assumed_revision(headers, revisions)


def assumed_revision(headers: Headers | None, revisions: RevisionSet) -> Revision:
    """Return the revision of a message that names none, on no connection.

    Source: 2025-06-18 basic/transports "Protocol Version Header".
    """
    if headers is not None and UNSTATED_HTTP_REVISION in revisions.handshake:
        return UNSTATED_HTTP_REVISION
    return revisions.handshake[-1]


def check_version(headers: Headers | None, revisions: RevisionSet) -> Refusal | None:
    """Return the refusal of a notification or response with an unknown version, or None.

    Source: 2025-06-18 basic/transports "Protocol Version Header".
    """
    header = headers.get(PROTOCOL_VERSION) if headers is not None else None
    if header is None or revisions.find(header) is not None:
        return None
    return _unsupported(header, revisions)


def check_batch(
    batch: Batch,
    headers: Headers | None,
    connection: ConnectionState | None,
    revisions: RevisionSet,
    max_batch: int,
) -> Refusal | None:
    """Return the refusal of a whole batch, or None.

    Source: 2025-03-26 basic "Batching".
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
    elif any(
        isinstance(member, Request) and member.method == "initialize" for member in batch.messages
    ):
        message = "initialize must not be part of a batch"
    else:
        return None
    return invalid_request(message, 400)


def _missing_meta(*wanted: str) -> Refusal:
    return invalid_params(f"params._meta must hold {' and '.join(wanted)}", 400)


def _refuse(code: int, message: str, data: JSONObject | None = None) -> Refusal:
    return Refusal(code=code, message=message, data=data, status=400)


def _needs_handshake(revisions: RevisionSet, code: int) -> Refusal:
    names = ", ".join(revisions.names())
    return _refuse(code, f"This server speaks {names}; send initialize first")


def _unsupported(requested: str, revisions: RevisionSet) -> Refusal:
    if not revisions.stateless:
        # A code that stateless revisions do not have makes clients of both kinds initialize.
        return _needs_handshake(revisions, INVALID_REQUEST)
    data = _versions(requested, revisions)
    older = ", ".join(known_revision.name for known_revision in revisions.handshake)
    hint = f" ({older} begin with initialize)" if older else ""
    return _refuse(UNSUPPORTED_PROTOCOL_VERSION, f"Unsupported protocol version{hint}", data)


def _versions(requested: object, revisions: RevisionSet) -> JSONObject:
    short = requested[:200] if isinstance(requested, str) else None
    return {"supported": revisions.stateless_names, "requested": short}


def unknown_method(method: str, revision: Revision, why: str = "") -> Refusal:
    """Return the refusal of a method that a revision or the server does not have, or hides.

    `why` follows its name, if the client may know it.
    """
    message, status = f"Unknown method: {method[:200]}{why}", revision.status(METHOD_NOT_FOUND)
    return Refusal(code=METHOD_NOT_FOUND, message=message, status=status)
