"""State of calls between two rounds of questions, if it is too large to send or for one use only.

A row is found by a digest that includes the principal, so that no other principal can find it. Its
quota key is a digest as well, by which the rows of one caller are counted.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class KeptState(models.Model):
    """The state of a call while its client answers; the client only holds a reference to it."""

    digest = models.CharField(_("digest"), max_length=64, primary_key=True)
    quota_key = models.CharField(_("quota"), max_length=64, db_index=True, editable=False)
    value = models.BinaryField(_("value"))
    size = models.PositiveIntegerField(_("size"), help_text=_("In bytes."))
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("state of a call")
        verbose_name_plural = _("states of calls")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.digest[:8]


class UsedState(models.Model):
    """A state that was used, and is rejected if it is sent again, until it expires."""

    digest = models.CharField(_("digest"), max_length=64, primary_key=True)
    quota_key = models.CharField(_("quota"), max_length=64, db_index=True, editable=False)
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("used state")
        verbose_name_plural = _("used states")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.digest[:8]
