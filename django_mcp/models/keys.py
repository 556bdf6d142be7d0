"""API keys: long-lived credentials of a user, of which only a digest is stored."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext_lazy as _

from django_mcp.known_servers import find_unknown_tools
from django_mcp.protocol.texts import clean, mark_invisible
from django_mcp.server.memory.state import digest_of

SECRET_BYTES = 32
PREFIX_BYTES = 6

_KEY = re.compile(r"mcp_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


def split_key(text: str) -> tuple[str, str] | None:
    """Return the prefix, to find a key by, and the secret, to verify it; None if it has not the form of one."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2])


class APIKeyManager(models.Manager["APIKey"]):
    """Creates keys."""

    def issue(
        self,
        *,
        user: Any,
        name: str,
        scopes: Iterable[str] = (),
        tools: Iterable[str] | None = None,
        expires_at: datetime | None = None,
    ) -> tuple[APIKey, str]:
        """Create a key and return it with its text, which is not stored and cannot be shown again.

        Args:
            user: the user it acts for.
            name: its purpose, in the requester's words.
            scopes: the scopes it has.
            tools: the only tools it may use; None: all that the user may.
            expires_at: when it expires; None: never.

        Raises:
            TypeError: `scopes` or `tools` is one text, and not a list.
            ValueError: no server of the site has one of the tools.
        """
        for argument, given in (("scopes", scopes), ("tools", tools)):
            if isinstance(given, str):
                raise TypeError(f"{argument}= takes a list: write {argument}=[{given!r}]")
        tools = None if tools is None else tuple(tools)
        unknown = find_unknown_tools(tools or ())
        if unknown:
            raise ValueError(f"No MCP server has the tools {', '.join(map(repr, unknown))}.")
        key = self.model(
            user=user,
            name=name,
            scopes=" ".join(scopes),
            tools="" if tools is None else " ".join(tools),
            is_restricted=tools is not None,
            expires_at=expires_at,
        )
        text = key.renew_secret()
        key.save(force_insert=True, using=self._db)
        return key, text


class APIKey(models.Model):
    """A key of a user. Its text, `mcp_PREFIX_SECRET`, is shown once; only a digest is stored."""

    prefix = models.CharField(_("prefix"), max_length=12, unique=True, editable=False)
    digest = models.CharField(_("digest"), max_length=64, editable=False)
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
        _("only some tools"),
        default=False,
        help_text=_("The key may use the tools listed below and no others."),
    )
    tools = models.TextField(
        _("tools"), blank=True, help_text=_("Names of tools, separated by spaces.")
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
        if self.tools.split() and not self.is_restricted:
            errors["is_restricted"] = _("Tools are listed below: check this, or take them out.")
        for field in ("scopes", "tools"):
            if "," in getattr(self, field):
                errors[field] = _("Separate the names by spaces, without commas.")
        # An expired key may still be renamed.
        if self._state.adding and self.is_over(timezone.now()):
            errors["expires_at"] = _("This is in the past.")
        if errors:
            raise ValidationError(errors)

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
        """Revoke the key permanently: every process refuses it within seconds. It stays in the admin's list."""
        if self.revoked_at is None:
            self.revoked_at = timezone.now()
            self.save(update_fields=["revoked_at"])

    @property
    def allowed_tools(self) -> frozenset[str] | None:
        """The only tools the key may use; None: all that its user may."""
        return frozenset(self.tools.split()) if self.is_restricted else None
