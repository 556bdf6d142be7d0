"""The app of the OAuth part: its model, checks, templates and translations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from django.db.models import QuerySet
    from django.urls import URLPattern, URLResolver

    from django_mcp.management.doctor.examination import Examination, Finding


class OAuthConfig(AppConfig):
    """Configure `django_mcp.contrib.oauth`."""

    name = "django_mcp.contrib.oauth"
    label = "django_mcp_oauth"
    verbose_name = _("OAuth for MCP clients")
    default_auto_field = "django.db.models.BigAutoField"
    principal_kind = "oauth"

    def ready(self) -> None:
        """Register the checks, and the hasher of generated client secrets."""
        from oauth2_provider.models import get_application_model

        from django_mcp.contrib.oauth import checks  # noqa: F401  (registers them)
        from django_mcp.contrib.oauth.client_secrets import connect

        connect(get_application_model())

    def mcp_urlpatterns(self) -> list[URLPattern | URLResolver]:
        """See `DocumentsApp.mcp_urlpatterns`."""
        from django.urls import include, path

        return [path("", include("django_mcp.contrib.oauth.urls"))]

    def revoke_tokens(self, principal_key: str, user_id: Any) -> bool | None:
        """See `RevokingApp.revoke_tokens`."""
        from django_mcp.contrib.oauth.revocation import revoke_tokens_of_principal

        return revoke_tokens_of_principal(principal_key, user_id)

    def find_expired(self) -> dict[str, list[tuple[QuerySet[Any], Callable[[QuerySet[Any]], int]]]]:
        """See `PruningApp.find_expired`."""
        from django_mcp.contrib.oauth.expired import find_expired
        from django_mcp.execution.tables import delete_some

        return {name: [(row, delete_some) for row in rows] for name, rows in find_expired()}

    def count_refused_sign_ins(self, since: datetime) -> int:
        """See `SignInApp.count_refused_sign_ins`."""
        from django_mcp.contrib.oauth.models import SignIn

        return SignIn.objects.filter(at__gt=since, is_refused=True).count()

    def examine_oauth(
        self, url: str, user: Any | None, examine: Examination | None, clients: Sequence[str]
    ) -> Iterator[Finding]:
        """See `OAuthExaminer.examine_oauth`."""
        from django_mcp.contrib.oauth.examination import examine_as
        from django_mcp.contrib.oauth.published_clients import find_published_clients

        return examine_as(user, url, examine, find_published_clients(clients))
