"""Signals of this package.

Receivers run in a thread of their own, in order, so they may use the database and delay no client;
their exceptions are logged. `sender` is the server, but of alerts. A signal without receivers costs nothing.
"""

from __future__ import annotations

from django.dispatch import Signal

tool_called = Signal()
"""Sent after a tool was called, or its whole result read, with any outcome, within about a second.

`call` is a `django_mcp.calls.RecordedCall`. With receivers, each call is collected for them, recorded
or not.
"""

session_opened = Signal()
"""Sent after a client opened a session. `session` is a `django_mcp.push.SessionHandle`."""

session_closed = Signal()
"""Sent once after a session has ended, for any reason: `reason` is a text.

Sent in the process that deleted its row, which may be `manage.py mcp_prune` or a queue's worker. An
expired session is deleted when a client uses its id, or within two minutes while any process serves
sessions.
"""

stream_opened = Signal()
"""Sent after a client opened a stream of changes. `stream` is a `django_mcp.push.StreamHandle`."""

stream_closed = Signal()
"""Sent after such a stream ended; `reason` is a text."""

client_notification = Signal()
"""Sent after a client sent a notification: `method`, `params` and `session` (None outside of one).

The params come from the client: treat them as hostile.
"""

roots_list_changed = Signal()
"""Sent after a client notified of changed roots: ask it for them in its next call."""

alert_began = Signal()
"""Sent by `manage.py mcp_health --alert` when a condition of its `--fail-on` holds that did not before.

`alert` is a `django_mcp.health.Alert`, and `sender` the model `HealthAlert`. Sent once, however many processes look. If a
receiver raises, the next look sends it again, to all of them.
"""

alert_ended = Signal()
"""Sent the same way when the condition no longer holds, or nobody has looked at it for a day."""
