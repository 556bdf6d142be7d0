"""Messages between processes, for sites without a shared channel layer."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class BusMessage(models.Model):
    """A message from one process to all others; deleted after a minute."""

    sender = models.CharField(_("sender"), max_length=32)
    body = models.TextField(_("body"))
    created_at = models.DateTimeField(_("created"), default=timezone.now, db_index=True)

    class Meta:
        verbose_name = _("message between processes")
        verbose_name_plural = _("messages between processes")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return str(self.pk)
