"""Caller: who sends an exchange, with what its transport knows of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django_mcp.protocol.records import Record
from django_mcp.registry.entries import Entry
from django_mcp.server.exchange.quotas import quota_key_of
from django_mcp.server.exchange.visibility import NONE_VISIBLE, Narrowing, VisibleEntries


class Anonymous:
    """The principal of a request without authentication."""

    key: str | None = None
    auth: Any = None
    is_authenticated = False

    def __repr__(self) -> str:
        return "<anonymous>"


ANONYMOUS = Anonymous()


def key_of(principal: Any) -> str | None:
    """Return the key of a principal, equal for all of its requests; None: anonymous.

    A user of Django, for which code in process may act, is named by the primary key.
    """
    key: str | None = getattr(principal, "key", None)
    # The model of the site's users may have a field of that name.
    if key is not None and not hasattr(principal, "_meta"):
        return key
    pk = getattr(getattr(principal, "user", principal), "pk", None)
    return None if pk is None else f"user:{pk}"


def user_pk_of(principal: Any) -> Any:
    """Return the primary key of a principal's user; None: it has no account on this site."""
    if hasattr(principal, "_meta"):
        return principal.pk
    if hasattr(principal, "user_pk"):
        # Without a copy of its user.
        return principal.user_pk
    return getattr(getattr(principal, "user", None), "pk", None)


class Caller(Record):
    """Who sends an exchange. The requests of a batch share it, and a stream keeps it.

    A transport fills it, and authentication and middleware add to it.
    """

    principal: Any = ANONYMOUS
    address: str | None = None
    url_kwargs: Mapping[str, Any] = {}
    """What the pattern of the URL captured."""
    build_request: Callable[[], Any] | None = None
    """Returns the HTTP request, if there is one."""
    authentication: Any = None
    """What authenticated the caller, and makes challenges; None: no authentication is required."""
    visible: VisibleEntries = NONE_VISIBLE
    """What the principal can see; the server sets it before it runs a method."""
    narrowing: Narrowing | None = None
    """What the client wants to see of the server; None: everything."""
    is_of_tenant: bool = False
    """Rights must not be cached for it, since those of another tenant may differ."""
    tenant: str = ""
    """Tells its tenant from others, in which what it began is unknown."""

    def explain_hidden(self, entry: Entry, uri: str | None = None) -> str | None:
        """Return a sentence without its end about an entry that the caller cannot see; None: they can.

        It is for the developers of the site. A client is told that the entry is unknown.
        """
        why = self.visible.explain_hidden(entry, uri)
        is_signed_in = getattr(self.principal, "is_authenticated", False)
        who = "this user" if is_signed_in else "a client that is not signed in"
        return (
            why and f"The {entry.kind.word} {entry.key} is registered, but hidden from {who}: {why}"
        )

    @property
    def quota_key(self) -> str:
        """The quota that is charged for what the caller does, has open or stored; see `quotas`.

        All clients and keys of a user share one, since a user can have many. Nothing belongs to it: what
        the caller may use again is bound to `key_of`.
        """
        pk = user_pk_of(self.principal)
        return quota_key_of(key_of(self.principal), self.address) if pk is None else f"user {pk}"
