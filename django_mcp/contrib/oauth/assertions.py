"""Assertions, by which a client proves that it has a private key (RFC 7523 section 3)."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, router, transaction
from django.db.models import QuerySet
from django.utils import timezone
from jwcrypto.common import base64url_decode

from django_mcp.contrib.oauth.client_keys import find_verifying_keys
from django_mcp.contrib.oauth.key_sets import ALGORITHMS, is_signed_by
from django_mcp.contrib.oauth.models import ClientKeys, UsedAssertion
from django_mcp.contrib.oauth.room import SOURCES, living_tokens
from django_mcp.contrib.oauth.sign_ins import SignInRefused
from django_mcp.process import Expiring, reset_on
from django_mcp.protocol.json import decode, has_repeated_keys

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

MAX_LENGTH = 8 * 1024
MAX_JTI = 256
MAX_LIFETIME_S = 3600
LEEWAY_S = 30
"""How far the clocks of a client and of this site may differ."""

KEEP_S = 300
"""How long a used assertion is kept after its end, in case the workers' clocks differ."""

MAX_USED = 10_000
"""Assertions of one client that have not expired."""

MAX_USED_BY_STRANGERS = 100
"""The same of a client that registered itself and that nobody has authorized, and of each that registered
itself while all of these have `MAX_USED_IN_ALL`."""

MAX_USED_IN_ALL = 500_000
"""From so many on, only clients with few get another, and those that staff made."""

RECOUNT_S = 10.0
"""How long a process knows whether there are so many."""

FORGOTTEN_AT_ONCE = 100

_fullness: Expiring[bool] = Expiring(1)
reset_on(_fullness.clear, settings=("DJANGO_MCP", "DATABASES"))

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_TYPES = ("jwt", "client-authentication+jwt")


class AssertionRefused(SignInRefused):
    """An assertion that proves nothing; the field is a claim, a part of the header, or `client_assertion`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assertion:
    """An assertion whose claims are right, and whose signature is not verified yet.

    Attributes:
        client_id: the client that it is about.
        jti: what tells it from the client's others.
        expires_s: when it ends, in seconds since 1970.
        kid, algorithm: of the key that signed it.
    """

    text: str
    client_id: str
    jti: str
    expires_s: float
    kid: str | None
    algorithm: str


def read_assertion(text: str, client_id: str | None, audiences: Collection[str]) -> Assertion:
    """Return an assertion, after every check that needs no key.

    Args:
        text: as the client sent it.
        client_id: of the request, if it names one.
        audiences: the issuer and the token endpoint.

    Raises:
        AssertionRefused: it is malformed, about another client, for another server, or expired.
    """
    if len(text) > MAX_LENGTH or not _COMPACT.fullmatch(text):
        raise AssertionRefused(
            "client_assertion", "It is no short signed JWT.", "Send one in the compact form."
        )
    header, claims = (_read_part(part) for part in text.split(".")[:2])
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise AssertionRefused(
            "alg", "It is not allowed.", f"Sign with one of: {', '.join(ALGORITHMS)}."
        )
    if "crit" in header or not (kid is None or isinstance(kid, str)):
        raise AssertionRefused(
            "client_assertion", "Its header is not supported.", "Send alg and kid."
        )
    kind = header.get("typ", _TYPES[0])
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise AssertionRefused("typ", "It is a JWT for another purpose.", "Leave typ out.")
    _check_subject(claims, client_id)
    audience = claims.get("aud")
    if isinstance(audience, list) and len(audience) == 1:
        audience = audience[0]
    if not isinstance(audience, str) or audience not in audiences:
        raise AssertionRefused(
            "aud", "The assertion is for another server.", "Name the issuer, and nothing else."
        )
    expires_s = _check_times(claims)
    jti = claims.get("jti")
    if not isinstance(jti, str) or not 0 < len(jti) <= MAX_JTI:
        raise AssertionRefused(
            "jti",
            f"It is no text of 1 to {MAX_JTI} characters.",
            "Send a new random one each time.",
        )
    return Assertion(
        text=text,
        client_id=claims["sub"],
        jti=jti,
        expires_s=expires_s,
        kid=kid,
        algorithm=algorithm,
    )


def check_signature(assertion: Assertion, application: Any) -> None:
    """Check that a client signed an assertion.

    Raises:
        AssertionRefused: none of the client's keys verifies it.
    """
    row = ClientKeys.objects.filter(application=application).first() if application else None
    if row is not None and row.algorithm in ("", assertion.algorithm):
        for key in find_verifying_keys(row, assertion.kid, assertion.algorithm):
            if is_signed_by(key, assertion.text, assertion.algorithm):
                return
    raise AssertionRefused(
        "client_assertion",
        "No published key of the client verifies it.",
        "Publish the key that signs, with its kid, under jwks or jwks_uri.",
    )


def use_up(assertion: Assertion, application: Any) -> None:
    """Note that an assertion was used, for all processes.

    Raises:
        AssertionRefused: it was used before, or the client has too many that have not expired.
    """
    _forget_expired()
    if not _may_use_another(application):
        raise AssertionRefused(
            "exp",
            "The client has too many assertions that have not expired.",
            "Let them end sooner.",
        )
    digest = hashlib.sha256(f"{application.pk}\n{assertion.jti}".encode()).hexdigest()
    try:
        with transaction.atomic(using=router.db_for_write(UsedAssertion)):
            UsedAssertion.objects.create(
                application=application,
                digest=digest,
                expires=datetime.fromtimestamp(assertion.expires_s + KEEP_S, UTC),
            )
    except IntegrityError as error:
        raise AssertionRefused(
            "jti", "The assertion was used before.", "Sign a new one for each request."
        ) from error


def expired_assertions() -> QuerySet[UsedAssertion]:
    """Return those that cannot be used again in any case."""
    return UsedAssertion.objects.filter(expires__lt=timezone.now())


def _may_use_another(application: Any) -> bool:
    used = UsedAssertion.objects.filter(application=application).count()
    if used >= MAX_USED:
        return False
    if used < MAX_USED_BY_STRANGERS or application.registration_source not in SOURCES:
        return True
    return not _is_full() and bool(living_tokens().filter(application=application).exists())


def _is_full() -> bool:
    is_full = _fullness.get(None)
    if is_full is None:
        rows = UsedAssertion.objects.filter(application__registration_source__in=SOURCES)
        is_full = rows.order_by()[:MAX_USED_IN_ALL].count() >= MAX_USED_IN_ALL
        _fullness.set(None, is_full, RECOUNT_S)
    return is_full


def _forget_expired() -> None:
    rows = expired_assertions().order_by("pk")
    # By key, so that two processes which delete the same rows do not wait for each other's others.
    expired = list(rows.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    if expired:
        UsedAssertion.objects.filter(pk__in=expired).delete()


def _read_part(part: str) -> dict[str, Any]:
    try:
        data = base64url_decode(part)
        content = decode(data)
        is_good = not has_repeated_keys(data)
    except ValueError:
        content, is_good = None, False
    if not isinstance(content, dict) or not is_good:
        raise AssertionRefused("client_assertion", "It is no JWT.", "Send a signed JWT.")
    return content


def _check_subject(claims: dict[str, Any], client_id: str | None) -> None:
    subject = claims.get("sub")
    if (
        not isinstance(subject, str)
        or "\0" in subject
        or claims.get("iss") != subject
        or client_id not in (None, subject)
    ):
        raise AssertionRefused(
            "sub", "The assertion is about another client.", "Make iss and sub the client_id."
        )


def _check_times(claims: dict[str, Any]) -> float:
    now = time.time()
    times = {name: claims.get(name) for name in ("exp", "iat", "nbf")}
    for name, value in times.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number or (value is None and name != "exp")):
            raise AssertionRefused(name, "It is not a number.", "Send seconds since 1970.")
    expires: Any = times["exp"]
    if expires <= now - LEEWAY_S:
        raise AssertionRefused("exp", "The assertion has expired.", "Sign a new one.")
    if expires > now + MAX_LIFETIME_S + LEEWAY_S:
        raise AssertionRefused(
            "exp", "The assertion would be valid for too long.", "Let it end within an hour."
        )
    for name in ("iat", "nbf"):
        value = times[name]
        if value is not None and value > now + LEEWAY_S:
            raise AssertionRefused(name, "It is in the future.", "Set the client's clock.")
    return float(expires)
