"""SessionHandshakes, the port for the revisions with a handshake, and the end of a handshake."""

from __future__ import annotations

import uuid

from django_mcp.log import logger
from django_mcp.protocol.errors import FAULT, Refusal
from django_mcp.protocol.headers import SESSION_ID
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.exchange.exchange import Reply
from django_mcp.server.exchange.session import Session
from django_mcp.server.ports import StoreUnavailable
from django_mcp.server.services import ServedCall
from django_mcp.sessions.core import back_channel
from django_mcp.sessions.core.get_and_delete import end_session, open_stream
from django_mcp.sessions.core.resumable_streams import close_stream, dispatch_in_session


async def complete_handshake(call: ServedCall, reply: Reply) -> Reply | Refusal:
    """Store what an `initialize` has settled; return the reply, with the id of a new session."""
    server, kept = call.server, call.exchange.connection
    try:
        if isinstance(kept, Session):
            # HTTP+SSE opens the session and its stream before the handshake.
            for stream in server.hub.streams_of(kept.key):
                stream.client_info = call.connection.client_info
                stream.revision_name = call.rules.name
            await server.ports.sessions.update(kept, call.connection.settled())
        elif kept is not None:
            kept.update(call.connection.settled())
        elif call.exchange.headers is not None and server.keeps_sessions:
            session = Session(
                key=uuid.uuid4().hex,
                server_name=server.name,
                principal_key=key_of(call.exchange.caller.principal),
                opened_s=server.ports.clock(),
                **call.connection.settled(),
            )
            token = await server.ports.sessions.open(session, call.exchange)
            if isinstance(token, Refusal):
                return token
            if not call.exchange.channel.is_buffered:
                # The hub ends sessions that expire.
                server.join_hub()
            server.ports.connection_observer.session_opened(session)
            reply.headers = ((SESSION_ID.encode(), token.encode()),)
    except StoreUnavailable as error:
        return error.to_refusal()
    except Exception:
        logger.exception("Could not answer %s", call.method)
        return FAULT
    return reply


class SessionHandshakes:
    """See `Handshakes`."""

    dispatch = staticmethod(dispatch_in_session)
    complete = staticmethod(complete_handshake)
    open_stream = staticmethod(open_stream)
    close_stream = staticmethod(close_stream)
    end_session = staticmethod(end_session)
    ask = staticmethod(back_channel.ask_client)
    request = staticmethod(back_channel.request_client)
    ping = staticmethod(back_channel.ping_session)
    withdraw = staticmethod(back_channel.withdraw)
    take_response = staticmethod(back_channel.take_response)
    join = staticmethod(back_channel.receive_stored_responses)
