"""Signals of this package: what a site may want to hear of.

Receivers run in a thread of their own, in order, and so may use the database and keep no client
waiting; what one raises is logged. `sender` is the server. A signal without receivers costs nothing.
"""

from __future__ import annotations

from django.dispatch import Signal

__all__ = [
    "client_notification",
    "roots_list_changed",
    "session_closed",
    "session_opened",
    "stream_closed",
    "stream_opened",
    "tool_called",
]

tool_called = Signal()
"""Sent after a tool was called, whatever came of it, within about a second.

`call` is a `django_mcp.calls.RecordedCall`. While it has receivers each call is noted for them,
recorded or not.
"""

session_opened = Signal()
"""Sent after a client opened a session. `session` is a `django_mcp.push.SessionHandle`."""

session_closed = Signal()
"""Sent once after a session is over, however that came: `reason` is a text that says it.

Sent in the process that deleted its row, which may be `manage.py mcp_prune` or a queue's worker. A
session that expires is deleted when somebody comes with its id, or within two minutes while any
process serves sessions.
"""

stream_opened = Signal()
"""Sent after a client opened a stream to hear of changes. `stream` is a `django_mcp.push.StreamHandle`."""

stream_closed = Signal()
"""Sent after such a stream ended; `reason` is a text."""

client_notification = Signal()
"""Sent after a client sent a notification: `method`, `params` and `session` (None outside of one).

The params are the client's own: treat them as hostile.
"""

roots_list_changed = Signal()
"""Sent after a client said that its roots have changed: ask it for them in its next call."""
