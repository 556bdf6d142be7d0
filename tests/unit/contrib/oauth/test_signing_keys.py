"""The keys that a site with OpenID Connect publishes while it changes to a new one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client
from django.urls import include, path
from oauth2_provider import views as toolkit

from django_mcp.contrib.oauth import oauth2_provider_settings

# The package's own URLs have these only where the setting was on when they were imported.
urlpatterns = [
    path("jwks.json", toolkit.JwksInfoView.as_view()),
    path("", include("django_mcp.urls")),
]


def make_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__


def is_verified(pem: str, published: jwt.PyJWKSet) -> bool:
    """Return whether one of the keys verifies what another key signed."""
    token = jwt.encode({"sub": "ada"}, pem, "RS256")
    for key in published.keys:
        with suppress(jwt.InvalidSignatureError):
            return jwt.decode(token, key, ["RS256"]) == {"sub": "ada"}
    return False


def test_what_an_earlier_key_signed_is_verified_after_a_rotation(settings: Any):
    earlier, current, removed = make_key(), make_key(), make_key()
    settings.OAUTH2_PROVIDER = oauth2_provider_settings(
        {"openid": "Know you"},
        OIDC_ENABLED=True,
        OIDC_RSA_PRIVATE_KEY=current,
        OIDC_RSA_PRIVATE_KEYS_INACTIVE=[earlier],
    )

    response = Client().get("/jwks.json")

    published = jwt.PyJWKSet.from_dict(response.json())
    verified = [is_verified(pem, published) for pem in (earlier, current, removed)]
    assert verified == [True, True, False]
    assert all("d" not in key for key in response.json()["keys"])
