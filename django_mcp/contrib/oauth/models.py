"""The endpoints that an administrator lets a client use without asking a user."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.signals import post_delete
from django.dispatch import receiver
from django.utils.translation import gettext_lazy as _
from oauth2_provider.models import get_access_token_model
from oauth2_provider.settings import oauth2_settings

from django_mcp.auth.addresses import canonical_uri
from django_mcp.models.fields import KeyField
from django_mcp.models.primary import Table


class ClientEndpoint(Table):
    """One MCP endpoint that one client may use without the consent of a user.

    The client gets tokens for it by the client credentials grant. A client with "skip
    authorization" gets users' tokens for it without the consent page.
    """

    application = models.ForeignKey(
        oauth2_settings.APPLICATION_MODEL,
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name=_("client"),
    )
    resource = KeyField(
        _("endpoint"),
        max_length=500,
        help_text=_("The full address of the endpoint, such as https://shop.example.com/mcp."),
    )

    class Meta:
        """Names of rows, and their uniqueness."""

        verbose_name = _("endpoint of a client")
        verbose_name_plural = _("endpoints of clients")
        constraints = (
            models.UniqueConstraint(
                fields=["application", "resource"], name="django_mcp_oauth_client_endpoint"
            ),
        )

    def __str__(self) -> str:
        return f"{self.application}: {self.resource}"

    def clean(self) -> None:
        """Normalize the address, so that it can be compared with endpoints."""
        canonical = canonical_uri(self.resource)
        if canonical is None:
            raise ValidationError({"resource": _("This is not the address of an endpoint.")})
        self.resource = canonical


@receiver(post_delete, sender=ClientEndpoint)
def end_own_tokens(instance: ClientEndpoint, **_kwargs: Any) -> None:
    """Delete a client's own tokens when one of its endpoints is removed."""
    tokens = get_access_token_model().objects
    tokens.filter(application=instance.serializable_value("application"), user=None).delete()
