"""The keys that a site with OpenID Connect publishes while it changes to a new one."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client
from django.urls import include, path
from jwcrypto import jwk, jwt
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


def sign(pem: str) -> str:
    key = jwk.JWK.from_pem(pem.encode())
    token = jwt.JWT(header={"alg": "RS256", "kid": key.thumbprint()}, claims={"sub": "ada"})
    token.make_signed_token(key)
    return str(token.serialize())


def test_what_an_earlier_key_signed_is_verified_after_a_rotation(settings: Any):
    earlier, current = make_key(), make_key()
    signed = sign(earlier)
    settings.OAUTH2_PROVIDER = oauth2_provider_settings(
        {"openid": "Know you"},
        OIDC_ENABLED=True,
        OIDC_RSA_PRIVATE_KEY=current,
        OIDC_RSA_PRIVATE_KEYS_INACTIVE=[earlier],
    )

    published = jwk.JWKSet.from_json(Client().get("/jwks.json").content.decode())

    for token in (signed, sign(current)):
        assert jwt.JWT(jwt=token, key=published).claims == '{"sub":"ada"}'
    text = Client().get("/jwks.json").content.decode()
    assert '"d"' not in text
