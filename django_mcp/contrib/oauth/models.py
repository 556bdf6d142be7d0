"""Endpoints without consent, steps of sign-ins, refresh tokens in use twice, and clients' keys."""

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
from django_mcp.models.sessions import user_key
from django_mcp.protocol.sanitize import clean


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
        return clean(f"{self.application}: {self.resource}", 900)

    def clean(self) -> None:
        """Normalize the address, so that it can be compared with endpoints."""
        canonical = canonical_uri(self.resource)
        if canonical is None:
            raise ValidationError({"resource": _("This is not the address of an endpoint.")})
        self.resource = canonical


class ClientKeys(Table):
    """The public keys by which a client authenticates (`private_key_jwt`, RFC 7523).

    A client without a row here has none.
    """

    application = models.OneToOneField(
        oauth2_settings.APPLICATION_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    jwks = models.TextField(blank=True)
    """The key set as JSON, which the client gave or which was last read from `jwks_uri`."""

    jwks_uri = models.CharField(max_length=500, blank=True)
    algorithm = models.CharField(max_length=16, blank=True)
    expires = models.DateTimeField(null=True)
    """When `jwks` has to be read again; None: it was not read yet, or the client gave it."""

    tried = models.DateTimeField(null=True)
    """When `jwks_uri` was last asked, or is being asked."""

    class Meta:
        """Names of rows."""

        verbose_name = _("keys of a client")
        verbose_name_plural = _("keys of clients")

    def __str__(self) -> str:
        return str(self.application)


class UsedAssertion(Table):
    """An assertion that a client has used, which is kept until it expires."""

    application = models.ForeignKey(
        oauth2_settings.APPLICATION_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    digest = KeyField(max_length=64, unique=True)
    expires = models.DateTimeField(db_index=True)

    class Meta:
        """Names of rows."""

        verbose_name = _("used assertion")
        verbose_name_plural = _("used assertions")

    def __str__(self) -> str:
        return self.digest


@receiver(post_delete, sender=ClientEndpoint)
def end_own_tokens(instance: ClientEndpoint, **_kwargs: Any) -> None:
    """Delete a client's own tokens when one of its endpoints is removed."""
    tokens = get_access_token_model().objects
    tokens.filter(application=instance.serializable_value("application"), user=None).delete()


class SignIn(Table):
    """One step of a client's sign-in that succeeded or was refused.

    `sign_ins` writes the rows. All texts of clients are cut and hold no control characters.
    """

    class Step(models.TextChoices):
        """How far the client came."""

        DOCUMENT = "document", _("document read")
        REGISTRATION = "registration", _("registered")
        AUTHORIZATION = "authorization", _("authorized")
        TOKEN = "token", _("token issued")
        REFRESH = "refresh", _("token refreshed")
        REVOCATION = "revocation", _("token revoked")

    at = models.DateTimeField(_("time"))
    step = KeyField(_("step"), max_length=20, choices=Step)
    is_refused = models.BooleanField(_("refused"))
    client_id = KeyField(_("client id"), max_length=255, blank=True)
    client_name = models.CharField(_("client"), max_length=100, blank=True)
    address = KeyField(_("address"), max_length=64, blank=True)
    user = user_key(on_delete=models.SET_NULL)
    caller = KeyField(max_length=64, editable=False)
    field = KeyField(_("field"), max_length=60, blank=True)
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    remedy = models.CharField(_("remedy"), max_length=500, blank=True)

    class Meta:
        """Names of rows, who may see them, and how they are found."""

        verbose_name = _("sign-in")
        verbose_name_plural = _("sign-ins")
        default_permissions = ("view",)
        indexes = (
            models.Index(fields=["-at", "-id"], name="django_mcp_oauth_signin_time"),
            models.Index(fields=["caller", "-id"], name="django_mcp_oauth_signin_caller"),
        )

    def __str__(self) -> str:
        return f"{self.get_step_display()}: {clean(self.client_name or self.client_id, 300)}"


class SupersededToken(Table):
    """A refresh token that was exchanged for another, and may be used again within the grace.

    Without this row a revoked refresh token was ended by somebody, and is never accepted.
    """

    token_checksum = KeyField(max_length=64, unique=True)
    at = models.DateTimeField()
    scope = models.TextField(blank=True)
    uses = models.PositiveSmallIntegerField(default=0)

    class Meta:
        """Nobody edits these rows."""

        default_permissions = ()
        indexes = (models.Index(fields=["at"], name="django_mcp_oauth_superseded"),)

    def __str__(self) -> str:
        return f"{self.token_checksum[:8]} of {self.at}"
