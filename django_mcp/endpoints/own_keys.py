"""The API keys that signed-in users make for themselves on the page Connect, where the site allows it."""

from __future__ import annotations

import re
import secrets
from datetime import timedelta
from typing import Any, cast

from django import forms
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import router, transaction
from django.http import Http404, HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from django_mcp.conf import settings
from django_mcp.endpoints.client_config import MAX_TITLE_CHARS
from django_mcp.endpoints.usable_entries import all_scopes_of, usable_entries, usable_toolsets
from django_mcp.execution.tables import delete_some, digest_of_quota
from django_mcp.log import logger
from django_mcp.models import APIKey, UsedState
from django_mcp.protocol.sanitize import clean
from django_mcp.server.exchange.visibility import Allowed
from django_mcp.servers import MCPServer

MAX_VALID_KEYS = 20
"""How many valid keys a user may have before they can make no more here."""

MAX_KEYS_A_DAY = 20
"""How many keys of a user may be made in a day, revoked ones included."""

MAX_WRONG_PASSWORDS = 5
"""How many passwords of a user are compared within `WRONG_PASSWORDS_S` before one was right."""

WRONG_PASSWORDS_S = 300

KEYS_SHOWN = 50

DAYS = 90
"""How long a key is valid unless the user says otherwise, if the site allows that long."""


@sensitive_variables()
def show_keys(request: HttpRequest, servers: list[MCPServer]) -> dict[str, Any]:
    """Make a key if the request asks for one; return what the template shows of the user's keys.

    A user who may use no server that reads keys makes none, but can revoke those from before.
    """
    user: Any = request.user
    text, form = "", None
    readers: list[MCPServer] = []
    if servers:
        form = OwnKeyForm(user, servers, request.POST or None)
        if form.is_valid():
            try:
                text = form.issue()
            except ValidationError as error:
                form.add_error(None, error)
            else:
                readers = form.find_readers()
                form = OwnKeyForm(user, servers)
    keys = APIKey.objects.valid_of(user)[:KEYS_SHOWN]
    return {
        "has_password": user.has_usable_password(),
        "key_form": form,
        "new_key": text,
        "new_key_readers": readers,
        "keys": [{"key": key, "name": clean(key.name, MAX_TITLE_CHARS)} for key in keys],
    }


def revoke_own(user: Any, prefix: str) -> None:
    """Revoke one of the user's keys; those of others are unknown."""
    is_prefix = re.fullmatch("[0-9a-f]{12}", prefix) is not None
    key = APIKey.objects.filter(user=user, prefix=prefix).first() if is_prefix else None
    if key is None:
        raise Http404
    key.revoke()


class OwnKeyForm(forms.Form):
    """What a user says of a new key, with their password.

    The key gets the scopes that its tools need, or those of all that the user may do: it has none to choose.
    """

    name = forms.CharField(
        label=_("Name"),
        max_length=100,
        help_text=_("What the key is for, such as the name of a client."),
    )
    days = forms.IntegerField(label=_("Days until it expires"), min_value=1)
    everything = forms.BooleanField(label=_("Everything that I may do"), required=False)
    toolsets = forms.MultipleChoiceField(
        label=_("Only these toolsets"), required=False, widget=forms.CheckboxSelectMultiple
    )
    tools = forms.MultipleChoiceField(
        label=_("Only these tools"), required=False, widget=forms.CheckboxSelectMultiple
    )
    read_only = forms.BooleanField(
        label=_("Only reading"),
        required=False,
        help_text=_("Of the tools, the key sees only those that do not write."),
    )
    password = forms.CharField(
        label=_("Your password"),
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, user: Any, servers: list[MCPServer], data: Any = None) -> None:
        most = cast("int", settings.CONNECT_KEY_DAYS)
        super().__init__(data, initial={"days": min(DAYS, most)}, prefix="key")
        self.user, self.servers = user, servers
        days, choice = cast("Any", self.fields["days"]), cast("Any", self.fields["tools"])
        days.max_value = days.widget.attrs["max"] = most
        days.validators.append(MaxValueValidator(most))
        usable = usable_entries(user, servers)
        choice.choices = [
            (name, f"{name} ({', '.join(sorted(scopes))})" if scopes else name)
            for name, scopes in sorted(usable["tools"].items())
        ]
        toolsets = usable_toolsets(user, servers)
        if len(toolsets) > 1:
            cast("Any", self.fields["toolsets"]).choices = [(name, name) for name in toolsets]
        else:
            del self.fields["toolsets"]
        if scopes := all_scopes_of(usable):
            self.fields["everything"].help_text = _("Scopes: %(scopes)s") % {
                "scopes": ", ".join(scopes)
            }

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        """Check the key, and then the password: no guess is free."""
        cleaned: dict[str, Any] = super().clean() or {}
        names_some = bool(cleaned.get("tools") or cleaned.get("toolsets"))
        if not self.errors and cleaned["everything"] == names_some:
            self.add_error("tools", _("Choose the tools, or everything."))
        if not self.errors:
            APIKey(name=cleaned["name"]).clean()
            _check_password(self.user, cleaned["password"])
        return cleaned

    def issue(self) -> str:
        """Make the key, and return its text, which is shown once.

        Raises:
            ValidationError: the user has too many keys.
        """
        cleaned, now = self.cleaned_data, timezone.now()
        allowed = self._find_allowed()
        alias = router.db_for_write(APIKey)
        with transaction.atomic(using=alias):
            # Of concurrent requests of a user, one after the other counts.
            users = get_user_model()._base_manager.using(alias)
            users.select_for_update().filter(pk=self.user.pk).first()
            delete_some(APIKey.objects.long_over().filter(user=self.user))
            made = APIKey.objects.filter(user=self.user, created_at__gt=now - timedelta(days=1))
            is_full = APIKey.objects.valid_of(self.user).count() >= MAX_VALID_KEYS
            if is_full or made.count() >= MAX_KEYS_A_DAY:
                raise ValidationError(_("You have too many keys. Revoke some, or wait a day."))
            _key, text = APIKey.objects.issue(
                user=self.user,
                name=cleaned["name"],
                scopes=all_scopes_of(usable_entries(self.user, self.servers, allowed)),
                read_only=cleaned["read_only"],
                **self._find_names(),
                expires_at=now + timedelta(days=cleaned["days"]),
            )
        return text

    def find_readers(self) -> list[MCPServer]:
        """Return the servers where the key may do something."""
        allowed = self._find_allowed()
        return [
            server
            for server in self.servers
            if any(usable_entries(self.user, [server], allowed).values())
        ]

    def _find_allowed(self) -> Allowed | None:
        read_only, names = self.cleaned_data["read_only"], self._find_names()
        if not names:
            return Allowed(names_all=True, read_only=True) if read_only else None
        named = {kind: frozenset(given) for kind, given in names.items()}
        return Allowed(tools=named["tools"], toolsets=named["toolsets"], read_only=read_only)

    def _find_names(self) -> dict[str, list[str]]:
        """Return the names of the tools and of the toolsets that were chosen; empty: everything was."""
        cleaned = self.cleaned_data
        if cleaned["everything"]:
            return {}
        return {kind: list(dict.fromkeys(cleaned.get(kind, ()))) for kind in ("tools", "toolsets")}


@sensitive_variables()
def _check_password(user: Any, password: str) -> None:
    """Compare a password, within the limit of wrong ones.

    Guesses are rows and not counted in a cache, which may belong to one process, be full, or keep nothing.
    """
    now, quota = timezone.now(), digest_of_quota(f"password:{user.pk}")
    guesses = UsedState.objects.filter(quota_key=quota)
    guesses.filter(expires_at__lte=now).delete()
    # Stored before it is compared, so that concurrent guesses count as well.
    guess = UsedState.objects.create(
        digest=secrets.token_hex(32),
        quota_key=quota,
        expires_at=now + timedelta(seconds=WRONG_PASSWORDS_S),
    )
    if guesses.count() > MAX_WRONG_PASSWORDS:
        guess.delete()
        # A person with the session of a user may not be that user.
        logger.warning("Too many wrong passwords of user %s on the page Connect", user.pk)
        raise ValidationError(_("Too many wrong passwords. Try again in a few minutes."))
    if not user.check_password(password):
        raise ValidationError({"password": _("This is not your password.")})
    guesses.delete()
