"""The messages that the processes of a site send each other."""

from __future__ import annotations

from msgspec import Struct, to_builtins

from django_mcp.protocol.json import JSONObject
from django_mcp.protocol.messages import RequestId


class ProcessMessage(Struct, kw_only=True, omit_defaults=True, tag_field="kind"):
    """A message to the other processes; the tag of its class is the `kind` of its JSON form."""

    def to_wire(self) -> JSONObject:
        """Return the JSON form, which a bus carries."""
        wire: JSONObject = to_builtins(self)
        return wire


class Missed(ProcessMessage, tag="missed"):
    """Changes were lost: of the resources of a server, or of everything."""

    server: str | None = None


class CloseStream(ProcessMessage, tag="close"):
    """The site closes a stream."""

    stream: str


class StreamOpened(ProcessMessage, tag="stream-opened"):
    """From now on a stream, opened at this time, receives the messages of its session."""

    session: str
    at: float


class StreamGone(ProcessMessage, tag="stream-gone"):
    """The last stream of a session in this process has ended."""

    session: str


class StreamFollowed(ProcessMessage, tag="stream-followed"):
    """A request of this process follows a stream."""

    stream: str


class MoreRecorded(ProcessMessage, tag="more-recorded"):
    """More messages of a followed stream are recorded."""

    stream: str


class LiveMessage(ProcessMessage, tag="live-message"):
    """A message of a followed stream that is not recorded."""

    stream: str
    message: str


class SubscriptionsChanged(ProcessMessage, tag="subscriptions"):
    """A session is subscribed to these resources, after so many changes."""

    session: str
    version: int
    uris: list[str] | None = None
    """None: they are long, and the store has them."""


class PingClient(ProcessMessage, tag="ping"):
    """Ping the client of a session under this id."""

    session: str
    id: str


class Pong(ProcessMessage, tag="pong"):
    """The client of a session has answered a ping."""

    session: str
    id: str


class ResponseStored(ProcessMessage, tag="response"):
    """A client's response to a request of the server can be read from the store."""

    server: str
    session: str
    id: str


class CallCancelled(ProcessMessage, tag="call-cancelled"):
    """The client of a session has cancelled a call."""

    session: str
    id: RequestId


class SessionEnded(ProcessMessage, tag="session-ended"):
    """A session has ended."""

    session: str


class ExtensionMessage(ProcessMessage, tag="extension"):
    """Data of an extension of a server, for the same extension in other processes."""

    server: str
    extension: str
    data: JSONObject
