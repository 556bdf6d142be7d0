"""Log levels, least to most severe (RFC 5424, section 6.2.1, in the protocol's spelling)."""

from __future__ import annotations

LOG_LEVELS: dict[str, int] = {
    name: severity
    for severity, name in enumerate(
        ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    )
}
"""Severity by name; a higher number is more severe."""
