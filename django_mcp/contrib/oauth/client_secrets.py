"""Client secrets that this site generates, and how they are stored.

A generated secret cannot be guessed, so a slow hash would add no protection and cost CPU time for
each request with a wrong one. A secret that a person typed keeps Django's hasher.
"""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth.hashers import get_hashers_by_algorithm
from django.db.models.signals import pre_save
from django.utils.crypto import constant_time_compare, salted_hmac

ALGORITHM = "pbkdf2_sha256"
"""It stores its number of iterations with each hash, and is among Django's default hashers."""

SALT = "django_mcp.contrib.oauth.client_secrets"


class ClientSecretGenerator:
    """Generates secrets of 256 random bits, with a signature by which they are recognized."""

    def hash(self) -> str:
        """Return a new secret. django-oauth-toolkit gave the method its name."""
        random = secrets.token_urlsafe(32)
        return f"{random}.{_sign(random)}"


def is_generated(secret: str) -> bool:
    """Return whether a secret comes from `ClientSecretGenerator`."""
    random, _, signature = secret.partition(".")
    return constant_time_compare(signature, _sign(random))


def connect(application_model: type[Any]) -> None:
    """Hash the generated secrets of a model's rows with one iteration when they are saved."""
    pre_save.connect(_hash_generated, sender=application_model, dispatch_uid=SALT)


def _hash_generated(*, instance: Any, **_kwargs: Any) -> None:
    hasher: Any = get_hashers_by_algorithm().get(ALGORITHM)
    if hasher is None or not instance.hash_client_secret:
        return
    if is_generated(instance.client_secret):
        salt = secrets.token_hex(16)
        instance.client_secret = hasher.encode(instance.client_secret, salt, iterations=1)


def _sign(text: str) -> str:
    return salted_hmac(SALT, text, algorithm="sha256").hexdigest()[:16]
