"""The form of the consent page, signed so that an answer belongs to the page that was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.signing import Signer
from django.utils.crypto import constant_time_compare
from oauth2_provider.forms import AllowForm

from django_mcp.protocol.json import encode

_SEALED = sorted(AllowForm.base_fields.keys() - {"allow"})


class ConsentForm(AllowForm):
    """The toolkit's form, with a signature over the request that the user was asked about."""

    seal = forms.CharField(required=False, widget=forms.HiddenInput())


def make_seal(fields: Mapping[str, Any], user: Any) -> str:
    """Return the signature over an authorization request that a user is asked about.

    Args:
        fields: the values of the form.
        user: the user who is asked.
    """
    # Forms strip values, and browsers rewrite the line ends in them.
    values = [" ".join(str(fields.get(name) or "").split()) for name in _SEALED]
    return Signer(salt=__name__).signature(encode([str(user.pk), *values]))


def has_valid_seal(fields: Mapping[str, Any], user: Any) -> bool:
    """Return whether a form is the one that was made for this user, unchanged."""
    return constant_time_compare(fields["seal"], make_seal(fields, user))
