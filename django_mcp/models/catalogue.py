"""The tools, resources, templates and prompts that are disabled."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_mcp.models.fields import KeyField
from django_mcp.models.primary import Table
from django_mcp.protocol.sanitize import clean


class DisabledEntry(Table):
    """One entry of a server that is unknown to clients, in all processes.

    `django_mcp.endpoints.disabled_entries` applies the rows to the registries.
    """

    class Kind(models.TextChoices):
        """The kind of entry; the value names the registry's mapping."""

        TOOL = "tools", _("tool")
        RESOURCE = "resources", _("resource")
        TEMPLATE = "templates", _("resource template")
        PROMPT = "prompts", _("prompt")

    server = KeyField(_("server"), max_length=100)
    kind = KeyField(_("kind"), max_length=10, choices=Kind)
    key = KeyField(
        _("key"), max_length=400, help_text=_("Its name; for resources, the URI or URI template.")
    )
    disabled_at = models.DateTimeField(_("disabled at"), auto_now_add=True)
    disabled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("disabled by"),
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
    )

    class Meta:
        # The admin's page shows all entries, and which of them are disabled.
        verbose_name = _("catalogue entry")
        verbose_name_plural = _("catalogue")
        permissions = (("try_entry", _("Can call entries from the catalogue")),)
        constraints = (
            models.UniqueConstraint(
                fields=["server", "kind", "key"], name="django_mcp_disabled_once"
            ),
        )

    def __str__(self) -> str:
        return clean(f"{self.server}: {self.key}", 600)
