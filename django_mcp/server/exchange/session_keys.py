"""The public keys of sessions, by which code of the site reaches their clients."""

from __future__ import annotations

import re
from typing import Any

SESSION_KEY = re.compile("[0-9a-f]{32}")
"""Their form."""


def check_session_key(key: Any) -> None:
    """Raise TypeError or ValueError for what is no key of a session, though the session may have ended; None passes."""
    if key is None:
        return
    if not isinstance(key, str):
        raise TypeError(
            f"session is the key of a session, ctx.session_key, not a {type(key).__name__}"
        )
    if not SESSION_KEY.fullmatch(key):
        raise ValueError(
            "session is no key of a session, which has 32 hexadecimal digits: pass ctx.session_key. The id that the "
            "client sends is another one."
        )
