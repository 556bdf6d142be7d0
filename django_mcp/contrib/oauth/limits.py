"""How many clients may make themselves known: those of one address in an hour, and in all."""

from __future__ import annotations

import ipaddress
import time
from datetime import timedelta

from django.core.cache import cache
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
)
from oauth2_provider.settings import oauth2_settings

from django_mcp.conf import settings

__all__ = ["HOUR_S", "has_room", "is_flood", "wait_s"]

HOUR_S = 3600
UNUSED_AFTER = timedelta(hours=1)
"""How old a client without a code or token has to be before it makes room for others."""


def is_flood(address: str) -> bool:
    """Count a client that comes from an address, and tell whether it is one too many in this hour."""
    window = int(time.time()) // HOUR_S
    key = f"django_mcp:oauth:register:{_network(address)}:{window}"
    cache.add(key, 0, HOUR_S)
    try:
        count = cache.incr(key)
    except ValueError:
        # It went out of the cache between the two calls.
        count = 1
    return count > settings.OAUTH_REGISTRATIONS_PER_HOUR


def wait_s() -> int:
    """Return the seconds until clients of an address are counted anew."""
    return HOUR_S - int(time.time()) % HOUR_S


def has_room() -> bool:
    """Tell whether there may be one more client, once those that nobody uses are gone."""
    applications = get_application_model().objects.filter(registration_source__in=("dcr", "cimd"))
    if applications.count() < settings.OAUTH_MAX_REGISTERED:
        return True
    unused = applications.filter(created__lt=timezone.now() - UNUSED_AFTER)
    for model in (get_grant_model(), get_refresh_token_model()):
        unused = unused.exclude(pk__in=model.objects.values("application"))
    access_tokens = get_access_token_model().objects.filter(application__isnull=False)
    # The one that came with the registration is no use of it.
    used = access_tokens.exclude(scope=oauth2_settings.DCR_REGISTRATION_SCOPE)
    unused.exclude(pk__in=used.values("application")).delete()
    return bool(applications.count() < settings.OAUTH_MAX_REGISTERED)


def _network(address: str) -> str:
    """Return what counts as one address: of IPv6, what one customer gets."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if ip.version == 4:
        return str(ip)
    return str(ipaddress.ip_network((ip, 64), strict=False).network_address)
