"""Which of Django's exceptions are expected, and what a client is told of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from django.core.exceptions import (
    NON_FIELD_ERRORS,
    ObjectDoesNotExist,
    PermissionDenied,
    ValidationError,
)
from django.utils.translation import gettext as _

from django_mcp.server.exchange.call import Failure, FailureKind

__all__ = ["DjangoExceptions"]


class DjangoExceptions:
    """Tell "not permitted", "not found" and "not valid" from faults, in the caller's language.

    A text that the application gave the exception reaches the client, as it does in Django's own
    error pages; what Django says of its internals does not.
    """

    def map(self, error: Exception) -> Failure | None:
        """See `ExceptionMapper.map`."""
        if isinstance(error, ValidationError):
            return Failure(kind=FailureKind.INVALID, message="\n".join(_validation_texts(error)))
        if isinstance(error, PermissionDenied):
            return Failure(
                kind=FailureKind.DENIED, message=_own_text(error) or _("Permission denied.")
            )
        if isinstance(error, ObjectDoesNotExist):
            return Failure(kind=FailureKind.MISSING, message=_missing_text(error))
        if _is_http404(error):
            return Failure(kind=FailureKind.MISSING, message=_own_text(error) or _("Not found."))
        return None

    def missing(self) -> Failure:
        """See `ExceptionMapper.missing`."""
        return Failure(kind=FailureKind.MISSING, message=_("Not found."))


def _is_http404(error: Exception) -> bool:
    # Importing it here would load the model layer; the code that raised it has done so.
    module = sys.modules.get("django.http.response")
    return module is not None and isinstance(error, module.Http404)


def _own_text(error: Exception) -> str:
    """Return the text an application gave an exception; "" when it gave none."""
    first = error.args[0] if error.args else ""
    # The handler of a URL resolver gives a dict of what it tried.
    return "" if isinstance(first, dict | list | tuple) else str(first)


def _missing_text(error: ObjectDoesNotExist) -> str:
    # Of "shop.models.Order.DoesNotExist" only what is missing may be told.
    model, _dot, name = type(error).__qualname__.rpartition(".")
    if name == "DoesNotExist" and model:
        return _("%(name)s not found.") % {"name": model.rpartition(".")[2]}
    return _("Not found.")


def _validation_texts(error: ValidationError) -> Iterator[str]:
    if not hasattr(error, "error_dict"):
        yield from error.messages
        return
    for field, messages in error.message_dict.items():
        for message in messages:
            yield message if field == NON_FIELD_ERRORS else f"{field}: {message}"
