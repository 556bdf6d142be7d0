"""What is wrong now, as `manage.py mcp_health --alert` found it last."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.fields import KeyField
from django_mcp.models.primary import Table


class HealthAlert(Table):
    """A condition that holds. Its row is deleted when it no longer does.

    The process that inserts or deletes the row sends the signal, so each is sent once.
    """

    condition = KeyField(_("condition"), max_length=100, primary_key=True)
    began_at = models.DateTimeField(_("began"))
    checked_at = models.DateTimeField(_("checked"))

    class Meta:
        verbose_name = _("alert")
        verbose_name_plural = _("alerts")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.condition
