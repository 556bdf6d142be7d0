"""Which SQL statements write: the question on which a transaction is opened."""

from __future__ import annotations

import re

__all__ = ["may_write"]

_OPENING = re.compile(r"(?:[\s(;]|--[^\n]*(?:\n|$)|/\*.*?\*/)*([A-Za-z]*)", re.DOTALL)
"""Blanks, parentheses and comments in front of a statement, and its first word."""

_NEVER = frozenset(
    {
        "ABORT", "ATTACH", "BEGIN", "CLOSE", "COMMIT", "DESC", "DESCRIBE", "DETACH", "END", "FETCH",
        "PRAGMA", "RELEASE", "RESET", "ROLLBACK", "SAVEPOINT", "SET", "SHOW", "START", "TABLE",
        "USE", "VACUUM", "VALUES",
    }
)  # fmt: skip
"""First words of statements that read, that steer the connection or its transaction, or that a
database refuses inside a transaction. `SET` is one of them: rolled back, it would undo what
others set on the connection, such as a tenant's search path."""

_SIGNS = {
    # A lock is held for as long as a transaction lasts, so it needs one. INTO makes a table.
    "SELECT": (
        ("FOR", "INTO", "LOCK"),
        re.compile(r"\bFOR\s+(?:UPDATE|NO|SHARE|KEY)\b|\bLOCK\s+IN\b|\bINTO\b"),
    ),
    "WITH": (
        ("FOR", "INTO", "UPDATE", "DELETE"),
        re.compile(r"\b(?:INTO|UPDATE|DELETE)\b|\bFOR\s+(?:NO|SHARE|KEY)\b"),
    ),
    "EXPLAIN": (("ANALY",), re.compile(r"\bANALY[SZ]E\b")),
}
"""First words of statements that read, unless the pattern is found in them; looking for plain
text first is many times faster than for the pattern."""


def may_write(sql: object) -> bool:
    """Tell whether a statement may change data or take a lock.

    Wrong only towards True, where it costs a transaction that was not needed; except for what a
    function does that a `SELECT` calls.
    """
    # Drivers also take objects that compose SQL; what they will say is not known yet.
    if not isinstance(sql, str):
        return True
    opening = _OPENING.match(sql)
    word = opening[1].upper() if opening is not None else ""
    if word in _NEVER:
        return False
    signs = _SIGNS.get(word)
    if signs is None:
        # Oracle's way to set things on a connection, which Django does as it connects.
        return not (word == "ALTER" and sql.lstrip()[5:].lstrip()[:7].upper() == "SESSION")
    texts, pattern = signs
    upper = sql.upper()
    return any(text in upper for text in texts) and pattern.search(upper) is not None
