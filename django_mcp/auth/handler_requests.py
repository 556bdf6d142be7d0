"""The HTTP request that handlers see, without credentials: those are for this server, or for other parts of the site."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, QueryDict
from django.utils.datastructures import MultiValueDict

_CREDENTIAL: Final = re.compile(
    r"auth(?!or(?!i))|cookie|c?srf|xsrf|session|token|(api|access|private).?key|secret|credential"
    r"|pass.?(w|phrase|code|key)|pwd|bearer"
    r"|assertion|jwt|dpop|oidc|saml|principal|signature|user(?!.?agent)"
    r"|(^|[-_])(x|account|app|client|functions|licen[cs]e|master|shared|subscription)[-_]?key$|^key$"
    r"|(^|[-_])(dn|e?mail|hmac|login|mfa|otp|pin|sid|sig|ssn|sso|ticket|vault)($|[-_])|^code$|account.?(id|n)"
    r"|(forwarded|remote).(e?mail|name|groups?)|(client|ssl|tls|x509).?(cert|client)",
    re.IGNORECASE,
)
"""Parts of names of what says who somebody is: headers, variables of WSGI, attributes, query parameters."""

_ADDRESS: Final = re.compile(
    r"ur[il]$|referr?er$|(forwarded|original|rewritten)[-_]?(path|prefix)$", re.IGNORECASE
)
"""Ends of names of headers and variables that hold a URL, such as `Referer`, `RAW_URI` and `X-Original-URL`."""

_KEPT_OF_SCOPE: Final = frozenset(
    [
        "type",
        "asgi",
        "http_version",
        "method",
        "scheme",
        "path",
        "raw_path",
        "query_string",
        "root_path",
        "headers",
        "client",
        "server",
        "extensions",
        "url_route",
        "path_remaining",
    ]
)

_BODY: Final = ("_body", "_post", "_files", "_stream", "_messages", "_post_parse_error")


def is_credential(name: str) -> bool:
    """Return whether a header, variable, attribute or parameter of this name may hold credentials."""
    return _CREDENTIAL.search(name) is not None or name.upper() in (
        settings.SESSION_COOKIE_NAME.upper(),
        settings.CSRF_HEADER_NAME.upper(),
    )


def build_handler_request(source: HttpRequest, user: Any) -> HttpRequest:
    """Return a copy of a request for a handler: without credentials and body, and with another user.

    It has no cookies; no header, variable, query parameter or attribute whose name is that of
    credentials (`is_credential`), such as `Authorization`, `X-CSRFToken`, `REMOTE_USER` or
    `request.session`, and none in the URLs of other headers; and of the scope of ASGI only what
    describes the request itself. The source is not changed, since the site's middleware may still read
    it.
    """
    request = source.__class__.__new__(source.__class__)
    attributes = vars(request)
    for name, value in vars(source).items():
        # What middleware has made of the request may hold all of it.
        if not is_credential(name) and not _holds(value, source):
            attributes[name] = value
    for name in (*_BODY, "GET", "headers"):
        # Cached properties of ASGI and WSGI requests as well.
        attributes.pop(name, None)
    request.META = _without_credentials(source.META)
    request.META["QUERY_STRING"] = query = _clean_query(source.META.get("QUERY_STRING", ""))
    request.COOKIES = {}
    request.GET = QueryDict(query, encoding=source.encoding)
    # Also of those classes whose POST is a property.
    request.POST = QueryDict(encoding=source.encoding)
    attributes.update(_body=b"", _files=MultiValueDict(), _stream=BytesIO(), _read_started=False)
    if "FILES" in attributes:
        attributes["FILES"] = attributes["_files"]
    if "environ" in attributes:
        # META was made from it.
        attributes["environ"] = request.META
    if "scope" in attributes:
        attributes["scope"] = _clean_scope(attributes["scope"], query)
    request.user = user

    async def auser() -> Any:
        return user

    request.auser = auser
    return request


def _holds(value: Any, source: HttpRequest) -> bool:
    """Return whether an object has the request as an attribute, or is a list of such objects."""
    if isinstance(value, list | tuple):
        # Such as the upload handlers of a form that was read.
        return any(_holds(part, source) for part in value)
    return value is source or any(
        member is source for member in getattr(value, "__dict__", {}).values()
    )


def _without_credentials(meta: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        name: _clean_address(name, value) for name, value in meta.items() if not is_credential(name)
    }
    if "wsgi.input" in kept:
        kept["wsgi.input"] = BytesIO()
    return kept


def _clean_query(query: str) -> str:
    """Return a query string without parameters of credentials; any other is left as it came.

    One with more parameters than Django reads is left out.
    """
    limit: int | None = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
    if limit is not None and query.count("&") >= limit:
        return ""
    query_dict = QueryDict(query, mutable=True)
    names = [name for name in query_dict if is_credential(name)]
    for name in names:
        del query_dict[name]
    return query_dict.urlencode() if names else query


def _clean_address(name: str, value: Any) -> Any:
    """Return the value of a header or variable; if it is a URL, without credentials in its query."""
    if not isinstance(value, str) or "?" not in value or _ADDRESS.search(name) is None:
        return value
    start, _, rest = value.partition("?")
    query, mark, fragment = rest.partition("#")
    return f"{start}?{_clean_query(query)}{mark}{fragment}"


def _clean_scope(scope: Mapping[str, Any], query: str) -> dict[str, Any]:
    kept = {name: value for name, value in scope.items() if name in _KEPT_OF_SCOPE}
    headers = []
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if not is_credential(name):
            headers.append((raw_name, _clean_address(name, value).encode("latin-1")))
    return {**kept, "headers": headers, "query_string": query.encode()}
