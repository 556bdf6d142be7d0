"""What `atomic` says of a synchronous tool: the databases on which it runs in a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from django_mcp.registry.problems import RegistrationError

Atomic: TypeAlias = bool | str | Sequence[str]
"""True: the default database; False: none; else the alias of a database, or several."""

_DEFAULT = "default"


def read_aliases(atomic: Any) -> tuple[str, ...]:
    """Return the aliases that a value of `atomic` means, each once."""
    if isinstance(atomic, bool):
        return (_DEFAULT,) if atomic else ()
    given = (atomic,) if isinstance(atomic, str) else atomic
    is_list = isinstance(given, Sequence) and not isinstance(given, bytes | bytearray)
    if not is_list or not all(isinstance(alias, str) and alias for alias in given):
        raise TypeError(f"{atomic!r} is neither True, False, nor one or several database aliases")
    return tuple(dict.fromkeys(given))


def find_aliases(
    atomic: Atomic | None, source: str, *, is_read_only: bool, is_async: bool
) -> tuple[str, ...] | None:
    """Return the aliases for a tool; None leaves them to its server."""
    if atomic is None:
        return () if is_read_only or is_async else None
    try:
        aliases = read_aliases(atomic)
    except TypeError:
        raise RegistrationError(
            f"{source}: atomic= is {atomic!r:.60}. Say True, False, the alias of a database, or a "
            f"list of aliases such as ['default', 'ledger']."
        ) from None
    if aliases and is_async:
        raise RegistrationError(
            f"{source}: atomic= is {atomic!r:.60}, but an asynchronous function gets no "
            f"transaction. Make it a plain function, or call one with `sync_to_async` that opens "
            f"`transaction.atomic()`."
        )
    return aliases
