"""The form of an API key: scopes and tools from lists, the user by name, and a lifetime."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib.admin.widgets import FilteredSelectMultiple
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp.auth.permissions import visible_to
from django_mcp.auth.scopes import named_scopes
from django_mcp.conf import settings
from django_mcp.models.keys import APIKey
from django_mcp.servers import all_servers

if TYPE_CHECKING:
    BaseForm = forms.ModelForm[APIKey]
else:
    BaseForm = forms.ModelForm

LIFETIMES = (
    ("30", _("in 30 days")),
    ("90", _("in 90 days")),
    ("365", _("in a year")),
    ("never", _("never")),
    ("", _("at the time below")),
)
DEFAULT_LIFETIME = "90"


class _Names(forms.MultipleChoiceField):
    """Names from a list, which the model keeps as text."""

    def clean(self, value: Any) -> str:
        return " ".join(super().clean(value))


class KeyForm(BaseForm):
    """The form of a key, made for a user who looks at it.

    Attributes:
        viewer: the user, set on the subclass of a request.
    """

    viewer: ClassVar[Any] = None

    lifetime = forms.ChoiceField(
        choices=LIFETIMES, required=False, initial=DEFAULT_LIFETIME, label=_("expires")
    )
    scopes = _Names(
        required=False,
        label=_("scopes"),
        help_text=_("The scopes that the key grants, for tools that require scopes."),
        widget=FilteredSelectMultiple(_("scopes"), is_stacked=False),
    )
    tools = _Names(
        required=False,
        label=_("tools"),
        widget=FilteredSelectMultiple(_("tools"), is_stacked=False),
    )

    class Meta:
        model = APIKey
        fields = "__all__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered = {"scopes": wanted_scopes(), "tools": usable_tools(self.viewer)}
        for name, known in offered.items():
            kept = self.initial[name] = getattr(self.instance, name).split()
            field: Any = self.fields[name]
            field.choices = [(each, each) for each in sorted({*known, *kept})]
        if not self.instance._state.adding:
            del self.fields["lifetime"]

    def clean(self) -> dict[str, Any]:
        """Replace the chosen lifetime by the time when it ends."""
        found: dict[str, Any] = super().clean() or {}
        lifetime = found.get("lifetime")
        if lifetime:
            is_endless = lifetime == "never"
            found["expires_at"] = (
                None if is_endless else timezone.now() + timedelta(days=int(lifetime))
            )
        return found


def usable_tools(user: Any) -> set[str]:
    """Return the names of the tools that a user may use; others stay unknown to them."""
    found = set()
    for server in all_servers():
        visible = visible_to(user, server.derived.requirements)
        found |= {name for name, tool in server.registry.tools.items() if visible.includes(tool)}
    return found


def wanted_scopes() -> set[str]:
    """Return the scopes that anything asks for."""
    servers = all_servers()
    gates = [server.gate for server in servers if server.gate is not None]
    required = chain.from_iterable(gate.required_scopes for gate in gates)
    return {*named_scopes(servers), *required, *(settings.SCOPE_IMPLIES or ())}
