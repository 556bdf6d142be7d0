"""Known faults: the pattern of a tool and the kind of a fault, with the reason, for each site.

A pattern that fits no fault fails the test, so who mends a fault takes it out.
"""

from __future__ import annotations

KNOWN: dict[str, dict[tuple[str, str], str]] = {}
