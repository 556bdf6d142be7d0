"""A validator that lets concurrent requests go on only when all of them were found valid."""

from __future__ import annotations

from threading import Barrier
from typing import Any

from django_mcp.contrib.oauth.validator import MCPOAuth2Validator

PARTIES = 6
barrier = Barrier(PARTIES)


class MeetingValidator(MCPOAuth2Validator):
    """Waits for the other requests of a race, which name it in a parameter."""

    def client_authentication_required(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        _meet(request, "meet_first")
        return super().client_authentication_required(request, *args, **kwargs)

    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        is_valid = super().validate_refresh_token(refresh_token, client, request, *args, **kwargs)
        _meet(request)
        return is_valid

    def validate_code(
        self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        is_valid = super().validate_code(client_id, code, client, request, *args, **kwargs)
        _meet(request)
        return is_valid

    def revoke_token(
        self, token: str, token_type_hint: str, request: Any, *args: Any, **kwargs: Any
    ) -> None:
        _meet(request)
        super().revoke_token(token, token_type_hint, request, *args, **kwargs)


def _meet(request: Any, parameter: str = "meet") -> None:
    if getattr(request, parameter, None):
        barrier.wait(timeout=30)
