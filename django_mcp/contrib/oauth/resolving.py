"""Make a client from its metadata document, or bring it up to date.

It does what `oauth2_provider.cimd` does, for documents that also declare what this server does not
support, and for clients that have keys.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from django.core.cache import caches
from django.core.exceptions import ValidationError
from django.db import IntegrityError, router, transaction
from django.utils import timezone
from oauth2_provider.cimd import CIMDError
from oauth2_provider.models import get_application_model
from oauth2_provider.settings import oauth2_settings

from django_mcp.conf import settings
from django_mcp.contrib.oauth.client_keys import save_keys
from django_mcp.contrib.oauth.client_metadata import (
    ClientMetadata,
    Unusable,
    is_permitted,
    narrow_document,
)
from django_mcp.contrib.oauth.fetcher import fetch_json


def resolve(client_id: str, request: Any) -> Any:
    """Return the client of a document, which is fetched and stored.

    A document that could not be used is not fetched again for `CIMD_FAILURE_BACKOFF_SECONDS`.

    Args:
        client_id: the document's URL.
        request: the toolkit's, for `CIMD_REGISTRATION_PERMISSION_CLASSES`.

    Raises:
        CIMDError: it may not or could not be fetched. The text is for the log only.
        Unusable: no client can be made from it.
    """
    classes = oauth2_settings.CIMD_REGISTRATION_PERMISSION_CLASSES
    if not is_permitted(classes, request, client_id):
        raise CIMDError("CIMD_REGISTRATION_PERMISSION_CLASSES do not admit it")
    if len(client_id) > get_application_model()._meta.get_field("client_id").max_length:
        raise CIMDError("the URL is too long")
    cache = caches[settings.THROTTLE_CACHE]
    # Some caches accept only short plain keys.
    key = f"django_mcp.oauth.document.{hashlib.sha256(client_id.encode()).hexdigest()}"
    failure = cache.get(key)
    if isinstance(failure, tuple):
        field, reason, remedy, error = failure
        raise Unusable(field, reason, remedy, error=error)
    if failure is not None:
        raise CIMDError(str(failure))
    pause_s = oauth2_settings.CIMD_FAILURE_BACKOFF_SECONDS
    try:
        data, lifetime_s = fetch_json(client_id)
        return _store(client_id, narrow_document(data, client_id), lifetime_s)
    except CIMDError as problem:
        cache.set(key, str(problem), pause_s)
        raise
    except Unusable as problem:
        cache.set(key, (problem.field, problem.reason, problem.remedy, problem.error), pause_s)
        raise


def _store(client_id: str, metadata: ClientMetadata, lifetime_s: int) -> Any:
    model = get_application_model()
    try:
        with transaction.atomic(using=router.db_for_write(model)):
            application = model.objects.filter(client_id=client_id).first()
            return _save(application or model(client_id=client_id), metadata, lifetime_s)
    except IntegrityError:
        # A concurrent request was the first to see the client.
        return _check_source(model.objects.get(client_id=client_id))


def _save(application: Any, metadata: ClientMetadata, lifetime_s: int) -> Any:
    if application.pk is not None:
        _check_source(application)
    application.user = None
    application.registration_source = application.RegistrationSource.CIMD
    application.client_type = (
        application.CLIENT_PUBLIC if metadata.is_public else application.CLIENT_CONFIDENTIAL
    )
    application.authorization_grant_type = application.GRANT_AUTHORIZATION_CODE
    application.name = metadata.name
    application.redirect_uris = " ".join(metadata.redirect_uris)
    application.cimd_expires_at = timezone.now() + timedelta(seconds=lifetime_s)
    try:
        # The database alone decides which of two concurrent requests is the first.
        application.full_clean(exclude=["client_secret"], validate_unique=False)
    except ValidationError as error:
        raise Unusable(
            "client_id", "; ".join(error.messages)[:500], "Correct the document."
        ) from error
    application.save()
    save_keys(application, metadata.keys)
    return application


def _check_source(application: Any) -> Any:
    if application.registration_source != application.RegistrationSource.CIMD:
        # Somebody added a client by hand under this id. No document may change it.
        raise CIMDError("the id belongs to a client that has no document")
    return application
