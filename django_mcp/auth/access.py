"""Who may see and use what on a Django site: permissions, scopes, and keys for some tools only."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from django_mcp.auth.challenges import insufficient_scope
from django_mcp.auth.principal import Principal, user_of
from django_mcp.auth.restore import describe, revive
from django_mcp.auth.scopes import are_covered
from django_mcp.handlers.threads import run_in_pool
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.access import Rule
from django_mcp.server.exchange.exchange import ANONYMOUS, Exchange
from django_mcp.server.exchange.visibility import WHOLE, Offer, Requirements

if TYPE_CHECKING:
    from django_mcp.auth.authenticator import Authenticator
    from django_mcp.handlers.breaker import Breaker
    from django_mcp.protocol.errors import Refusal

__all__ = ["DjangoAccess", "permissions_changed"]

MAX_AGE_S = 2.0
"""How long it may take until a changed permission counts, in processes that nobody told of it."""

MAX_KEPT = 10_000
"""Principals whose permissions are kept in a process, for each server."""

TIMEOUT_S = 5.0
"""How long a request waits for the permissions of its user. Our own limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    offer: Offer
    until: float
    user_id: Any


class DjangoAccess:
    """Judge by Django's permissions, which are loaded off the event loop and kept for a moment.

    Args:
        clock: seconds from any beginning.
        authenticators: returns those of the server, which know what became of credentials.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        authenticators: Callable[[], Iterable[Authenticator]] = tuple,
    ) -> None:
        self._clock = clock
        self._authenticators = authenticators
        self._kept: dict[Hashable, _Kept] = {}
        self._loading: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[Hashable, asyncio.Task[Offer]]
        ] = WeakKeyDictionary()
        self._changes = 0
        self._lock = threading.Lock()
        _policies.add(self)

    @cached_property
    def _breaker(self) -> Breaker:
        # Loads the machinery of databases, which importing a server must not.
        from django_mcp.handlers.breaker import Breaker

        return Breaker("The database of the permissions", timeout_s=TIMEOUT_S)

    def find_offer(self, exchange: Exchange, requirements: Requirements) -> Offer | None:
        """See `AccessPolicy.find_offer`."""
        principal = exchange.principal
        if requirements.are_none and principal is ANONYMOUS:
            return WHOLE
        tools = _allowed_tools(principal)
        if not requirements.rules:
            is_whole = requirements.are_none and tools is None
            return WHOLE if is_whole else Offer(requirements, tools=tools)
        if exchange.is_of_tenant:
            return None
        kept = self._kept.get((self._keep_as(principal), tools))
        if kept is None or kept.until < self._clock() or not kept.offer.is_of(requirements):
            return None
        return kept.offer

    async def load_offer(self, exchange: Exchange, requirements: Requirements) -> Offer:
        """See `AccessPolicy.load_offer`."""
        principal = exchange.principal
        name, tools = self._keep_as(principal), _allowed_tools(principal)
        if name is None or exchange.is_of_tenant:
            return await self._load(principal, requirements, None)
        # A request after a change must not get what was being read before it.
        key = (name, tools, self._changes, requirements)
        loading = self._loading.setdefault(asyncio.get_running_loop(), {})
        task = loading.get(key)
        if task is None:
            task = asyncio.create_task(self._load(principal, requirements, name))
            loading[key] = task
            task.add_done_callback(lambda _: loading.pop(key, None))
        # The others need its outcome, whatever becomes of who asked first.
        return await asyncio.shield(task)

    async def _load(self, principal: Any, requirements: Requirements, name: str | None) -> Offer:
        changes, user = self._changes, user_of(principal)
        load = partial(_load, user, requirements.all_rules)
        granted, may_keep = await self._breaker.run(load, run_in_pool)
        tools = _allowed_tools(principal)
        offer = Offer(requirements, granted, tools)
        if name is not None and may_keep:
            kept = _Kept(offer=offer, until=self._clock() + MAX_AGE_S, user_id=user.pk)
            with self._lock:
                # What changed meanwhile may have been read before it did.
                if changes == self._changes:
                    self._keep((name, tools), kept)
        return offer

    def refuse_scopes(self, exchange: Exchange, scopes: tuple[str, ...]) -> Refusal | None:
        """See `AccessPolicy.refuse_scopes`."""
        principal = exchange.principal
        if getattr(principal, "is_authenticated", False):
            auth = getattr(principal, "auth", None)
            # Only tokens have scopes; a signed-in user has all of them.
            if auth is None or auth.has_all_scopes or are_covered(scopes, auth.scopes):
                return None
        return insufficient_scope(exchange, scopes)

    def identify(self, principal: Any) -> str | None:
        """See `AccessPolicy.identify`."""
        if principal is ANONYMOUS:
            return None
        if isinstance(principal, Principal):
            return principal.key
        user = user_of(principal)
        key: str | None = None if user is principal else getattr(principal, "key", None)
        return key if key is not None or user.pk is None else f"user:{user.pk}"

    def describe(self, principal: Any) -> JSONObject | None:
        """See `AccessPolicy.describe`: what it may do, and nothing that would prove it elsewhere."""
        return describe(principal)

    async def revive(self, described: JSONObject | None) -> Any | None:
        """See `AccessPolicy.revive`: a user who was deactivated meanwhile may do nothing."""
        return await revive(described, self._authenticators())

    def forget(self, user_ids: Collection[Any] | None) -> None:
        """Forget what was loaded for these users; None: for everybody."""
        # Other processes name them as texts.
        names = None if user_ids is None else set(map(str, user_ids))
        with self._lock:
            self._changes += 1
            for key, kept in list(self._kept.items()):
                if names is None or str(kept.user_id) in names:
                    del self._kept[key]

    def _keep(self, key: Hashable, kept: _Kept) -> None:
        self._kept.pop(key, None)
        self._kept[key] = kept
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]

    def _keep_as(self, principal: Any) -> str | None:
        """Return a name to keep what was loaded by; None when nothing tells the principal apart."""
        if not getattr(principal, "is_authenticated", False):
            return "nobody"
        key = self.identify(principal)
        return None if key is None else f"known {key}"


_policies: WeakSet[DjangoAccess] = WeakSet()


def permissions_changed(user_ids: Collection[Any] | None) -> None:
    """Let changed permissions count at once in this process.

    The signals of Django's own models call it after a commit; call it yourself after changes that
    they do not tell of, such as `bulk_update`.

    Args:
        user_ids: primary keys of the users; None: anybody's may have changed.
    """
    for policy in list(_policies):
        policy.forget(user_ids)


def _load(user: Any, rules: frozenset[Rule]) -> tuple[frozenset[Rule], bool]:
    """Return which rules hold, and whether that may be kept."""
    # Loads models, which importing a server must not.
    from django_mcp.auth.permissions import find_granted, may_change_untold

    return find_granted(user, rules), not may_change_untold(user)


def _allowed_tools(principal: Any) -> frozenset[str] | None:
    auth = getattr(principal, "auth", None)
    tools: frozenset[str] | None = None if auth is None else auth.allowed_tools
    return tools
