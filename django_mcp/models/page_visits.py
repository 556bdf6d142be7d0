"""Pages that users were asked to visit, and the results.

A page's result goes only to the handler that asked: it never passes through a client.
"""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mcp.models.sessions import JSONTextField, user_key


class PageVisit(models.Model):
    """A page that one user was asked to visit, once, for one call."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = user_key(null=False, blank=False)
    principal_key = models.CharField(_("principal"), max_length=128, blank=True)
    server = models.CharField(_("server"), max_length=100)
    entry = models.CharField(_("entry"), max_length=200, blank=True)
    path = models.TextField(_("path"))
    session_key = models.CharField(_("session"), max_length=64, blank=True)
    state = JSONTextField(_("state"), null=True, blank=True)
    result = JSONTextField(_("result"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    completed_at = models.DateTimeField(_("completed"), null=True, blank=True)
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("visit to a page")
        verbose_name_plural = _("visits to pages")
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.path
