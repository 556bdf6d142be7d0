"""Annotations that `@extend_schema` of drf-spectacular, or `@swagger_auto_schema` of drf-yasg, gives an action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.contrib.drf.actions import METHODS, ViewAction
from django_mcp.protocol.json import JSONObject


class Annotated:
    """The annotations of an action.

    Attributes:
        description: for models; None: not said.
        title: the summary; None: not said.
        has_request: whether the data that it reads was said.
        request: the serializer of that data, or None.
        has_response: whether the data of a successful response was said.
        response: the serializer of those data, or something else that drf-spectacular takes.
        is_excluded: the site leaves the action out of its schema.
    """

    description: Any = None
    title: Any = None
    has_request = False
    request: Any = None
    has_response = False
    response: Any = None
    is_excluded = False

    def __init__(self, action: ViewAction, view: Any) -> None:
        self._parameters: list[Any] = []
        told = _find_yasg(action)
        schema = None if told else _find_schema(action)
        if schema is None:
            self._read_yasg(told)
            return
        schema.view, schema.method, schema.path = view, action.method.upper(), ""
        base = _spectacular_base()
        self._parameters = list(schema.get_override_parameters())
        self.title = schema.get_summary()
        self.is_excluded = schema.is_excluded()
        said = schema.get_description()
        self.description = said if said != base.get_description(schema) else None
        said_schema = _only_said(type(schema), base)
        said_schema.view, said_schema.method, said_schema.path = view, schema.method, ""
        request, responses = (
            said_schema.get_request_serializer(),
            said_schema.get_response_serializers(),
        )
        self.has_request, self.has_response = request is not _UNSAID, responses is not _UNSAID
        self.request = request if self.has_request else None
        self.response = _find_success(responses) if self.has_response else None

    def _read_yasg(self, told: Mapping[str, Any]) -> None:
        """Read what `@swagger_auto_schema` was given."""
        self.title, self.description = (
            told.get("operation_summary"),
            told.get("operation_description"),
        )
        self.is_excluded = told.get("auto_schema", told) is None
        self.has_request, self.request = "request_body" in told, told.get("request_body")
        found = _find_success(told.get("responses", {}))
        # A `Response` of drf-yasg is a mapping.
        self.response = found.get("schema") if isinstance(found, Mapping) else found
        self.has_response = self.response is not None

    def query(self) -> dict[str, JSONObject]:
        """Return the parameters of the query that were annotated, as JSON Schemas."""
        if not self._parameters:
            return {}
        from drf_spectacular.plumbing import build_basic_type, is_basic_type
        from drf_spectacular.utils import OpenApiParameter

        parameters = {}
        for parameter in self._parameters:
            if (
                not isinstance(parameter, OpenApiParameter)
                or parameter.location != OpenApiParameter.QUERY
            ):
                continue
            given = parameter.type
            schema = dict(build_basic_type(given) or {}) if is_basic_type(given) else {}
            if isinstance(given, dict):
                schema = dict(given)
            if parameter.enum:
                schema["enum"] = list(parameter.enum)
            if parameter.many:
                schema = {"type": "array", "items": schema}
            if parameter.description:
                schema["description"] = str(parameter.description)
            if parameter.required:
                schema["required"] = True
            parameters[parameter.name] = schema
        return parameters


def _find_success(responses: Any) -> Any:
    """Return what is said of the first successful response, of those by their status."""
    if not isinstance(responses, dict):
        found = responses
    else:
        # A key may have the media type beside the status.
        by_status = {
            str(key[0] if isinstance(key, tuple) else key): value
            for key, value in responses.items()
        }
        found = next((by_status[key] for key in sorted(by_status) if key.startswith("2")), None)
    return getattr(found, "response", found)


def _spectacular_base() -> Any:
    from drf_spectacular.openapi import AutoSchema

    return AutoSchema


def _find_schema(action: ViewAction) -> Any:
    """Return the inspector that the decorator made; None without one."""
    given = getattr(action.function, "kwargs", {}).get("schema") or getattr(
        action.source, "schema", None
    )
    kind = given if isinstance(given, type) else type(given)
    if not any(base.__module__.startswith("drf_spectacular.") for base in kind.__mro__):
        return None
    made = given() if isinstance(given, type) else given
    return made if isinstance(made, _spectacular_base()) else None


def _find_yasg(action: ViewAction) -> Mapping[str, Any]:
    """Return the arguments that drf-yasg keeps on the function, for all of its methods or by their names."""
    told: Mapping[str, Any] = getattr(action.function, "_swagger_auto_schema", {})
    of_method: Mapping[str, Any] = (
        told if set(told).isdisjoint(METHODS) else told.get(action.method, {})
    )
    return of_method


_UNSAID: Any = object()


def _only_said(schema: type[Any], base: type[Any]) -> Any:
    """Return an inspector that guesses no serializers: a decorator passes on what it does not say."""

    class Unsaid(base):  # type: ignore[misc]
        def get_request_serializer(self) -> Any:
            return _UNSAID

        def get_response_serializers(self) -> Any:
            return _UNSAID

    bases = (Unsaid,) if schema is base else (schema, Unsaid)
    return type(schema.__name__, bases, {})()
