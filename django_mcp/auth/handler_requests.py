"""The HTTP request that handlers see, without credentials: those are for this server, or for other parts of the site."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, cast

from django.conf import settings as site_settings
from django.http import HttpRequest, QueryDict
from django.http.request import HttpHeaders
from django.utils.datastructures import MultiValueDict

from django_mcp.auth.left_out import Attributes, Cookies, Headers, Meta, Query
from django_mcp.conf import settings

_VARIABLES: Final = frozenset(
    [
        *("HTTP_ACCEPT", "HTTP_ACCEPT_LANGUAGE", "HTTP_USER_AGENT"),
        *("CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_CONTENT_ENCODING", "HTTP_CONTENT_LANGUAGE"),
        *("HTTP_HOST", "HTTP_ORIGIN", "HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP"),
        *("HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PORT", "HTTP_X_FORWARDED_PROTO"),
        *("HTTP_TRACEPARENT", "HTTP_TRACESTATE", "HTTP_X_CORRELATION_ID", "HTTP_X_REQUEST_ID"),
        *("HTTP_MCP_METHOD", "HTTP_MCP_NAME", "HTTP_MCP_PROTOCOL_VERSION"),
        *("REMOTE_ADDR", "REMOTE_HOST", "REMOTE_PORT", "SERVER_NAME", "SERVER_PORT"),
        *("PATH_INFO", "REQUEST_METHOD", "SCRIPT_NAME", "SERVER_PROTOCOL", "SERVER_SOFTWARE"),
        *("wsgi.errors", "wsgi.multiprocess", "wsgi.multithread", "wsgi.run_once"),
        *("wsgi.url_scheme", "wsgi.version"),
    ]
)
"""What handlers see of `META`. Any other header or variable may hold credentials, by whatever name."""

_KEPT_OF_SCOPE: Final = frozenset(
    [
        *("type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "root_path"),
        *("client", "server", "url_route", "path_remaining"),
    ]
)

_CREDENTIAL: Final = re.compile(
    r"auth(?!or(?!i))|cookie|c?srf|session|token|secret|credential|pass.?(w|phrase|code|key)|pwd"
    r"|bearer|assertion|jwt|dpop|oidc|saml|principal|signature|impersonat|user(?!_?agent)|login"
    r"|(api|access|private).?key|(^|_)(account|cert|key|member|mfa|otp|pass|pat|pin|sso|totp)s?($|_)",
    re.IGNORECASE,
)
"""Parts of names of attributes by which middleware says who somebody is."""

_BODY: Final = ("_body", "_post", "_files", "_stream", "_messages", "_post_parse_error")


def build_handler_request(source: HttpRequest, user: Any) -> HttpRequest:
    """Return a copy of a request for a handler: without credentials and body, and with another user.

    Of the headers, the variables of the server and the scope of ASGI it has what describes the request,
    and what `HANDLER_HEADERS` names; of the query, what `HANDLER_QUERY` names. It has no cookies, and no
    attribute whose name is that of credentials, such as `request.session`. The source is not changed,
    since the site's middleware may still read it.
    """
    kind: Any = source.__class__
    cls = _of_handler(kind)
    request: HttpRequest = cls.__new__(cls)
    attributes = vars(request)
    for name, value in vars(source).items():
        # What middleware has made of the request may hold all of it.
        if _CREDENTIAL.search(name) is None and not _holds(value, source):
            attributes[name] = value
    for name in (*_BODY, "GET"):
        # Cached properties of ASGI and WSGI requests as well.
        attributes.pop(name, None)
    names = list_visible_names()
    meta = Meta({name: value for name, value in source.META.items() if name in names})
    meta.left_out = source.META.keys() - names
    request.META, attributes["headers"] = meta, Headers(meta)
    query, left_out = _keep_named(source.META.get("QUERY_STRING", ""))
    meta["QUERY_STRING"] = query
    cookies = Cookies()
    # Django parses them when they are first read.
    cookies.left_out = frozenset(source.COOKIES) if "HTTP_COOKIE" in meta.left_out else ()
    request.COOKIES = cookies
    parameters = cast("Any", Query(query, encoding=source.encoding))
    request.GET = parameters
    parameters.left_out = left_out
    # Also of those classes whose POST is a property.
    request.POST = QueryDict(encoding=source.encoding)
    attributes.update(_body=b"", _files=MultiValueDict(), _stream=BytesIO(), _read_started=False)
    if "FILES" in attributes:
        attributes["FILES"] = attributes["_files"]
    if "environ" in attributes:
        # META was made from it.
        attributes["environ"] = request.META
    if "scope" in attributes:
        attributes["scope"] = _clean_scope(attributes["scope"], names, query)
    request.user = user

    async def auser() -> Any:
        return user

    request.auser = auser
    return request


@lru_cache
def _of_handler(cls: type[Any]) -> Any:
    """Return the class of the request of a handler, for that of the client's request."""
    if issubclass(cls, Attributes):
        return cls
    return type(cls.__name__, (Attributes, cls), {"__module__": cls.__module__})


def list_visible_names() -> set[str]:
    """Return the names in `META` that handlers see."""
    names = set(_VARIABLES)
    for name in settings.HANDLER_HEADERS:
        variable = HttpHeaders.to_wsgi_name(name)
        # A header, or a variable of the server such as GEOIP_COUNTRY.
        names |= {variable, variable.removeprefix("HTTP_")}
    if site_settings.SECURE_PROXY_SSL_HEADER is not None:
        # request.is_secure() reads it.
        names.add(site_settings.SECURE_PROXY_SSL_HEADER[0])
    return names


def _holds(value: Any, source: HttpRequest) -> bool:
    """Return whether an object has the request as an attribute, or is a list of such objects."""
    if isinstance(value, list | tuple):
        # Such as the upload handlers of a form that was read.
        return any(_holds(part, source) for part in value)
    return value is source or any(
        member is source for member in getattr(value, "__dict__", {}).values()
    )


def _keep_named(query: str) -> tuple[str, Collection[str]]:
    """Return the part of a query string that `HANDLER_QUERY` names, and the names of the other parameters.

    One with more parameters than Django reads is left out.
    """
    limit: int | None = site_settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
    if not query or (limit is not None and query.count("&") >= limit):
        return "", ()
    query_dict = QueryDict(query, mutable=True)
    left_out = set(query_dict).difference(settings.HANDLER_QUERY)
    for name in left_out:
        del query_dict[name]
    return query_dict.urlencode(), left_out


def _clean_scope(scope: Mapping[str, Any], names: Collection[str], query: str) -> dict[str, Any]:
    kept = {name: value for name, value in scope.items() if name in _KEPT_OF_SCOPE}
    headers = [
        (name, value)
        for name, value in scope["headers"]
        # Django ignores one with an underscore, which could pass for another.
        if b"_" not in name and HttpHeaders.to_wsgi_name(name.decode("latin-1")) in names
    ]
    return {**kept, "headers": headers, "query_string": query.encode()}
