"""Access on a Django site: permissions, scopes, restricted credentials, and stored principals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any
from weakref import WeakSet

from msgspec import to_builtins

from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.challenges import insufficient_scope
from django_mcp.auth.given_links import GivenLinks
from django_mcp.auth.permissions import find_granted, may_change_without_signal
from django_mcp.auth.principal import AuthInfo, Principal, user_of
from django_mcp.auth.recheck import recheck
from django_mcp.auth.scopes import are_covered
from django_mcp.execution.outages import Breaker
from django_mcp.execution.threads import run_in_pool
from django_mcp.process import Expiring, Sharing
from django_mcp.protocol.errors import Refusal
from django_mcp.protocol.json import JSONObject, decode, encode, encode_sorted
from django_mcp.registry.access import Rule
from django_mcp.server.exchange.caller import ANONYMOUS, key_of
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.exchange.visibility import ALL_VISIBLE, Allowed, Requirements, VisibleEntries

MAX_AGE_S = 2.0
"""How long permissions are cached. A change without a signal counts that much later."""

MAX_KEPT = 10_000
"""Principals whose permissions a process caches for each server."""

MAX_CLAIMS_BYTES = 16 * 1024
"""Size of the claims stored with a task, as JSON; larger claims are left out."""


class DjangoAccess:
    """Decides by Django's permissions, which are loaded in a thread and cached for two seconds.

    Args:
        authenticators: returns those of the server.
        server_name: returns the name of the server.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        authenticators: Callable[[], Iterable[Authenticator]] = tuple,
        server_name: Callable[[], str] = str,
    ) -> None:
        self._links = GivenLinks(server_name)
        self._authenticators = authenticators
        # With the primary key of each principal's user.
        self._kept: Expiring[tuple[VisibleEntries, Any]] = Expiring(MAX_KEPT, clock)
        self._loading: Sharing[VisibleEntries] = Sharing()
        self._breaker = Breaker("The database of the permissions")
        self._changes = 0
        self._lock = threading.Lock()
        _policies.add(self)

    def find_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries | None:
        principal = exchange.caller.principal
        if requirements.are_none and principal is ANONYMOUS:
            return ALL_VISIBLE
        allowed = allowed_of(principal)
        if not requirements.rules:
            is_whole = requirements.are_none and allowed is None
            return ALL_VISIBLE if is_whole else VisibleEntries(requirements, allowed=allowed)
        if exchange.caller.is_of_tenant:
            return None
        kept = self._kept.get((self._keep_as(principal), allowed))
        return kept[0] if kept is not None and kept[0].requirements is requirements else None

    async def load_visible(self, exchange: Exchange, requirements: Requirements) -> VisibleEntries:
        principal = exchange.caller.principal
        name, allowed = self._keep_as(principal), allowed_of(principal)
        if name is None or exchange.caller.is_of_tenant:
            return await self._load(principal, requirements, None)
        # A request after a change must not share a query from before it.
        key = (name, allowed, self._changes, requirements)
        return await self._loading.ask(key, lambda: self._load(principal, requirements, name))

    async def _load(
        self, principal: Any, requirements: Requirements, name: str | None
    ) -> VisibleEntries:
        changes, user = self._changes, user_of(principal)

        def load() -> tuple[frozenset[Rule], bool]:
            may_keep = not may_change_without_signal(user)
            return find_granted(user, requirements.all_rules, requirements), may_keep

        granted, may_keep = await run_in_pool(load, self._breaker)
        allowed = allowed_of(principal)
        visible = VisibleEntries(requirements, granted, allowed)
        if name is not None and may_keep:
            with self._lock:
                # Permissions that changed meanwhile may have been read before the change.
                if changes == self._changes:
                    self._kept.set((name, allowed), (visible, user.pk), MAX_AGE_S)
        return visible

    def check_scopes(self, exchange: Exchange, scopes: tuple[str, ...]) -> Refusal | None:
        principal = exchange.caller.principal
        if getattr(principal, "is_authenticated", False):
            auth = getattr(principal, "auth", None)
            # Only tokens have scopes; a signed-in user has all of them.
            if auth is None or auth.has_all_scopes or are_covered(scopes, auth.scopes):
                return None
        return insufficient_scope(exchange, scopes)

    async def give_links(self, exchange: Exchange, tool: str, uris: Collection[str]) -> None:
        """See `AccessPolicy.give_links`."""
        owner, quota_key = key_of(exchange.caller.principal), exchange.caller.quota_key
        if owner is not None:
            await self._links.add(_name_place(exchange), owner, tool, uris, quota_key)

    async def was_given(self, exchange: Exchange, uri: str) -> bool:
        """See `AccessPolicy.was_given`."""
        owner, allowed = key_of(exchange.caller.principal), allowed_of(exchange.caller.principal)
        if owner is None or allowed is None:
            return False
        tools = exchange.caller.visible.named_tools()
        return await self._links.has(_name_place(exchange), owner, tools, uri)

    def describe(self, principal: Any) -> JSONObject | None:
        """See `AccessPolicy.describe`; the description holds no credentials."""
        if principal is ANONYMOUS:
            return None
        user, auth = user_of(principal), getattr(principal, "auth", None)
        source = getattr(principal, "source", None)
        return {
            "source": None if source is None or type(source) is Authenticator else source.kind,
            "key": getattr(principal, "key", None) if isinstance(principal, Principal) else None,
            "user": None if user.pk is None else str(user.pk),
            "auth": None if auth is None else _describe_auth(auth),
        }

    async def revive(self, described: JSONObject | None) -> Any | None:
        """See `AccessPolicy.revive`; None for one that may not act any more."""
        if described is None:
            return ANONYMOUS
        user = None
        if described["user"] is not None:
            # Loads `django.db`, which importing a server must not.
            from django_mcp.auth.users import find_users

            users = await run_in_pool(partial(find_users, [described["user"]]))
            user = next(iter(users.values()), None)
            if user is None:
                return None
        if described["key"] is None:
            return user
        auth = None if described["auth"] is None else _read_auth(described["auth"])
        kind = described["source"]
        source = next(
            (
                authenticator
                for authenticator in self._authenticators()
                if authenticator.kind == kind
            ),
            None,
        )
        if source is None and kind is not None:
            # The site no longer has this authenticator, so it does not accept such credentials.
            return None
        source = source or Authenticator()
        principal = Principal(key=described["key"], user=user, auth=auth, source=source)
        return None if await recheck([principal], for_tasks=True) else principal

    def forget(self, user_ids: Collection[Any] | None) -> None:
        """Drop the cached permissions of these users; None: of all."""
        # Other processes send the keys as texts.
        names = None if user_ids is None else set(map(str, user_ids))
        with self._lock:
            self._changes += 1
            for key, (_offer, user_id) in self._kept.find_all():
                if names is None or str(user_id) in names:
                    self._kept.discard(key)

    def _keep_as(self, principal: Any) -> str | None:
        """Return the key for the cache; None for a principal that has none of its own."""
        if not getattr(principal, "is_authenticated", False):
            return "nobody"
        key = key_of(principal)
        return None if key is None else f"known {key}"


_policies: WeakSet[DjangoAccess] = WeakSet()


def permissions_changed(user_ids: Collection[Any] | None) -> None:
    """Apply changed permissions at once in this process.

    The signals of Django's own models call it after a commit. Call it yourself after changes without
    signals, such as `bulk_update`.

    Args:
        user_ids: primary keys of the users; None: those of any user may have changed.
    """
    for policy in list(_policies):
        policy.forget(user_ids)


def allowed_of(principal: Any) -> Allowed | None:
    """Return the only entries that a principal's credentials are for; None: they are not restricted."""
    auth = getattr(principal, "auth", None)
    return None if auth is None else auth.allowed


def _describe_auth(auth: AuthInfo) -> JSONObject:
    claims: JSONObject = {}
    # A custom authenticator may put anything there.
    with suppress(TypeError, ValueError, OverflowError, RecursionError):
        text = encode(dict(auth.claims))
        claims = decode(text) if len(text) <= MAX_CLAIMS_BYTES else {}
    described: JSONObject = to_builtins(replace(auth, claims=claims), order="deterministic")
    return described


def _read_auth(described: JSONObject) -> AuthInfo:
    read: dict[str, Any] = {
        "scopes": frozenset(described["scopes"]),
        "claims": MappingProxyType(described["claims"]),
    }
    for name in ("allowed_tools", "allowed_resources", "allowed_prompts", "allowed_toolsets"):
        # Earlier versions stored only the first.
        names = described.get(name)
        read[name] = None if names is None else frozenset(names)
    return AuthInfo(**{**described, **read})


def _name_place(exchange: Exchange) -> str:
    """Return what tells the place of an exchange from others on the server: its tenant, and what the URL says."""
    caller = exchange.caller
    variables = {name: str(value) for name, value in caller.url_kwargs.items()}
    return encode_sorted([caller.tenant, variables]).decode()
