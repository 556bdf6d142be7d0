"""What calls know between two rounds of questions, where it is too large to travel, or good once.

No row says whose it is: its digest covers the principal, so that another's look-up finds nothing.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

__all__ = ["KeptState", "UsedState"]


class KeptState(models.Model):
    """What a call knows while its client answers; a reference to it travels with the questions."""

    digest = models.CharField(_("digest"), max_length=64, primary_key=True)
    value = models.BinaryField(_("value"))
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("state of a call")
        verbose_name_plural = _("states of calls")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.digest[:8]


class UsedState(models.Model):
    """A state that came back and is refused when it comes again; there until it expires anyway."""

    digest = models.CharField(_("digest"), max_length=64, primary_key=True)
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("used state")
        verbose_name_plural = _("used states")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.digest[:8]
