"""A view that is read without a call: what it needs of one is replaced by what its class declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import Http404
from rest_framework.exceptions import APIException
from rest_framework.generics import GenericAPIView

REFUSALS = (APIException, PermissionDenied, Http404)
"""How a view refuses a request."""


def complete_queryset(view: Any) -> None:
    """Have a view return a queryset of its model, where its own needs the user or the URL of a call."""
    if not isinstance(view, GenericAPIView):
        return
    of_view = view.get_queryset

    def get_queryset() -> Any:
        try:
            return of_view()
        except (DatabaseError, *REFUSALS):
            raise
        except Exception:
            # Whatever it needs of a call.
            model = next(_find_models(view), None)
            if model is None:
                raise
            return model._default_manager.none()

    view.get_queryset = get_queryset


def _find_models(view: Any) -> Iterator[Any]:
    """Yield the models that a view is about, as its class declares."""
    queryset = getattr(view, "queryset", None)
    if queryset is not None:
        yield queryset.model
    serializer_class = getattr(view, "serializer_class", None)
    yield from _model_of(getattr(serializer_class, "Meta", None))
    yield from _model_of(getattr(getattr(view, "filterset_class", None), "_meta", None))
    try:
        yield from _model_of(getattr(view.get_serializer_class(), "Meta", None))
    except DatabaseError:
        raise
    except Exception:  # noqa: BLE001 - whatever it needs of a call
        return


def _model_of(options: Any) -> Iterator[Any]:
    model = getattr(options, "model", None)
    if model is not None:
        yield model


def complete_context(view: Any) -> None:
    """Have a view return the usual context of serializers, where its own needs the URL of a call."""
    if not isinstance(view, GenericAPIView):
        return
    of_view = view.get_serializer_context

    def get_serializer_context() -> Any:
        try:
            return of_view()
        except DatabaseError:
            raise
        except Exception:  # noqa: BLE001 - whatever it needs of a call
            return GenericAPIView.get_serializer_context(view)

    view.get_serializer_context = get_serializer_context
