"""API keys: long-lived credentials of a user, of which only a digest is stored."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext_lazy as _

from django_mcp.known_servers import find_unknown
from django_mcp.log import logger
from django_mcp.models.fields import KeyField
from django_mcp.models.primary import PrimaryManager, Table
from django_mcp.models.scopes import known_scopes
from django_mcp.protocol.sanitize import clean, mark_invisible
from django_mcp.registry.problems import did_you_mean
from django_mcp.server.exchange.digests import digest_of
from django_mcp.server.exchange.visibility import Allowed

SECRET_BYTES = 32
PREFIX_BYTES = 6

KEPT_DAYS = 90
"""How long a key that was revoked or has expired stays in the admin's list."""

_KEY = re.compile(r"mcp_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


def split_key(text: str) -> tuple[str, str] | None:
    """Return the prefix, to find a key by, and the secret, to verify it; None if it has not the form of one."""
    match = _KEY.fullmatch(text)
    return None if match is None else (match[1], match[2])


class APIKeyManager(PrimaryManager["APIKey"]):
    """Creates keys."""

    def valid_of(self, user: Any) -> models.QuerySet[APIKey]:
        """Return the user's keys that are neither revoked nor expired, newest first."""
        is_valid = models.Q(expires_at=None) | models.Q(expires_at__gt=timezone.now())
        return self.filter(is_valid, user=user, revoked_at=None).order_by("-created_at", "-pk")

    def long_over(self) -> models.QuerySet[APIKey]:
        """Return the keys that were revoked or expired more than `KEPT_DAYS` ago, which are to be deleted."""
        since = timezone.now() - timedelta(days=KEPT_DAYS)
        return self.filter(models.Q(revoked_at__lte=since) | models.Q(expires_at__lte=since))

    def issue(
        self,
        *,
        user: Any,
        name: str,
        scopes: Iterable[str] = (),
        tools: Iterable[str] | None = None,
        resources: Iterable[str] | None = None,
        prompts: Iterable[str] | None = None,
        toolsets: Iterable[str] | None = None,
        read_only: bool = False,
        expires_at: datetime | None = None,
    ) -> tuple[APIKey, str]:
        """Create a key and return it with its text, which is not stored and cannot be shown again.

        Args:
            user: the user it acts for.
            name: its purpose, in the requester's words.
            scopes: the scopes it has. They do not restrict it: it may also use all that needs none.
            tools: names of the only tools that it sees. If `tools`, `resources`, `prompts` or `toolsets` is
                given, the key is restricted to what the four name, and to what these tools link to; None
                for all of them: it sees everything that the user may.
            resources: URIs of the only resources that it sees, and URI templates.
            prompts: names of the only prompts that it sees.
            toolsets: names of the only toolsets that it sees, with all that is in them.
            read_only: of all these tools, it sees only those that do not write.
            expires_at: when it expires; None: never.

        Raises:
            TypeError: `scopes`, `tools`, `resources`, `prompts` or `toolsets` is one text, and not a list.
            ValueError: no server of the site has one of the tools, resources, prompts or toolsets, or a scope is
                like one that a server names, and is none. Other unknown scopes are logged, and so are a user who is not
                active and an `expires_at` that is over.
        """
        named = {"tools": tools, "resources": resources, "prompts": prompts, "toolsets": toolsets}
        for argument, given in {"scopes": scopes, **named}.items():
            if isinstance(given, str):
                raise TypeError(f"{argument}= takes a list: write {argument}=[{given!r}]")
        kept = {kind: tuple(names or ()) for kind, names in named.items()}
        for kind, names in kept.items():
            unknown = find_unknown(kind, names)
            if unknown:
                raise ValueError(f"No MCP server has the {kind} {', '.join(map(repr, unknown))}.")
        scopes = tuple(scopes)
        _check_scopes(scopes)
        if isinstance(expires_at, datetime) and expires_at.timestamp() <= time.time():
            logger.warning(
                "A key was made that expired at %s already, so that nothing accepts it.", expires_at
            )
        if not getattr(user, "is_active", True):
            logger.warning(
                "A key was made for %s, who is not active, so that nothing accepts it.", user
            )
        key = self.model(
            user=user,
            name=name,
            scopes=" ".join(scopes),
            tools=" ".join(kept["tools"]),
            resources="\n".join(kept["resources"]),
            prompts="\n".join(kept["prompts"]),
            toolsets=" ".join(kept["toolsets"]),
            read_only=read_only,
            is_restricted=any(names is not None for names in named.values()),
            expires_at=expires_at,
        )
        text = key.renew_secret()
        key.save(force_insert=True, using=self._db)
        return key, text

    def bulk_create(self, objs: Iterable[APIKey], *args: Any, **kwargs: Any) -> list[APIKey]:
        """Create keys that `renew_secret` has given a digest; others raise ValueError."""
        keys = list(objs)
        for key in keys:
            key.check_digest()
        return super().bulk_create(keys, *args, **kwargs)


def _check_scopes(scopes: Collection[str]) -> None:
    """Raise ValueError for a scope that looks like one of the site's misspelled; log others that no server names."""
    known = known_scopes() if scopes else set()
    for scope in (scope for scope in scopes if known and scope not in known):
        near = did_you_mean(scope, known)
        if near:
            raise ValueError(f"No MCP server names the scope {scope!r:.100}.{near}")
        logger.warning("A key gets the scope %.100r, which no MCP server names.", scope)


class APIKey(Table):
    """A key of a user. Its text, `mcp_PREFIX_SECRET`, is shown once; only a digest is stored."""

    prefix = KeyField(_("prefix"), max_length=12, unique=True, editable=False)
    digest = KeyField(_("digest"), max_length=64, editable=False)
    name = models.CharField(
        _("name"), max_length=100, help_text=_("What the key is for, such as the name of a client.")
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="mcp_api_keys",
        verbose_name=_("user"),
        help_text=_("The user on whose behalf the key acts."),
    )
    scopes = models.TextField(
        _("scopes"),
        blank=True,
        help_text=_(
            "The scopes that the key grants, for tools that require scopes; separated by spaces."
        ),
    )
    is_restricted = models.BooleanField(
        _("only what is named below"),
        default=False,
        help_text=_(
            "The key sees what is named below, what these tools link to, and nothing else."
        ),
    )
    tools = models.TextField(
        _("tools"), blank=True, help_text=_("Names of tools, separated by spaces.")
    )
    resources = models.TextField(
        _("resources"), blank=True, help_text=_("URIs and URI templates, one in each line.")
    )
    prompts = models.TextField(
        _("prompts"), blank=True, help_text=_("Names of prompts, one in each line.")
    )
    toolsets = models.TextField(
        _("toolsets"),
        blank=True,
        default="",
        db_default="",
        help_text=_("Names of toolsets, separated by spaces; the key sees all that is in them."),
    )
    read_only = models.BooleanField(
        _("only reading"),
        default=False,
        db_default=False,
        help_text=_("Of the tools, the key sees only those that do not write."),
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    last_used_at = models.DateTimeField(
        _("last used"), null=True, editable=False, help_text=_("Accurate to the minute.")
    )
    revoked_at = models.DateTimeField(_("revoked"), null=True, editable=False)

    objects: ClassVar[APIKeyManager] = APIKeyManager()

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        ordering = ("-created_at", "-pk")

    def __str__(self) -> str:
        return f"{clean(self.name, 100)} (mcp_{self.prefix})"

    def clean(self) -> None:
        """Check that the key has exactly the rights that its fields seem to give."""
        errors: dict[str, Any] = {}
        if not mark_invisible(self.name, lambda _: "").strip():
            errors["name"] = _("The name has no visible characters.")
        if not self.is_restricted and any(self._named()[:4]):
            errors["is_restricted"] = _("Entries are named below: check this, or take them out.")
        for field in ("scopes", "tools", "toolsets"):
            if "," in getattr(self, field):
                errors[field] = _("Separate the names by spaces, without commas.")
        # An expired key may still be renamed.
        if self._state.adding and self.is_over(timezone.now()):
            errors["expires_at"] = _("This is in the past.")
        if errors:
            raise ValidationError(errors)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the key; a new one raises ValueError if it has no digest, since nobody could use it."""
        if self._state.adding:
            self.check_digest()
        super().save(*args, **kwargs)

    def check_digest(self) -> None:
        """Raise ValueError if the key has no digest, and so no text."""
        if not self.digest:
            raise ValueError(
                "This key has no secret, so nobody could use it. Write "
                "`key, text = APIKey.objects.issue(user=user, name=name)`, and pass the text on."
            )

    def renew_secret(self) -> str:
        """Give the key a new prefix and secret, unsaved, and return its text."""
        self.prefix = secrets.token_hex(PREFIX_BYTES)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        # The secret is random and long, so a slow hash would add no protection.
        self.digest = digest_of(secret)
        return f"mcp_{self.prefix}_{secret}"

    def is_secret(self, secret: str) -> bool:
        """Compare a secret with this key's in constant time."""
        return constant_time_compare(self.digest, digest_of(secret))

    def is_over(self, now: datetime) -> bool:
        """Return whether the key was revoked or has expired."""
        return self.revoked_at is not None or (
            self.expires_at is not None and self.expires_at <= now
        )

    def revoke(self) -> None:
        """Revoke the key permanently: every process refuses it within seconds. It stays in the admin's list for `KEPT_DAYS`."""
        if self.revoked_at is None:
            self.revoked_at = timezone.now()
            self.save(update_fields=["revoked_at"])

    @property
    def allowed(self) -> Allowed | None:
        """The only entries that the key sees; None: all that its user may."""
        if self.is_restricted:
            return self._named()
        return Allowed(names_all=True, read_only=True) if self.read_only else None

    def _named(self) -> Allowed:
        return Allowed(
            tools=frozenset(self.tools.split()),
            resources=frozenset(filter(None, map(str.strip, self.resources.splitlines()))),
            prompts=frozenset(filter(None, map(str.strip, self.prompts.splitlines()))),
            toolsets=frozenset(self.toolsets.split()),
            read_only=self.read_only,
        )


class GivenLink(Table):
    """A resource that a result linked to, which a restricted key may read until this expires.

    A row is found by a digest of the server, its tenant, the key and the URI. Its quota key is a digest as well, by
    which the rows of one key are counted.
    """

    digest = KeyField(_("digest"), max_length=64, primary_key=True)
    quota_key = KeyField(_("quota"), max_length=64, db_index=True, editable=False)
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("resource given to a key")
        verbose_name_plural = _("resources given to keys")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.digest[:8]
