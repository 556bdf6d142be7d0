"""Check results against the types that the protocol's authors publish in `mcp-types`."""

from __future__ import annotations

from collections.abc import Iterable

from django.core.exceptions import ImproperlyConfigured

from django_mcp.protocol.json import JSONObject

__all__ = ["assert_conforming"]


def assert_conforming(revision: str, answers: Iterable[tuple[str, JSONObject]]) -> None:
    """Assert that results conform to a revision.

    Args:
        revision: its name.
        answers: methods, with their results.

    Raises:
        AssertionError: one does not; the text says which and where.
        ImproperlyConfigured: the package is not installed.
    """
    try:
        from mcp_types.methods import validate_server_result
    except ImportError as error:
        raise ImproperlyConfigured(
            "assert_conforms needs the published types: pip install 'mcp-types>=2.3'"
        ) from error
    from pydantic import ValidationError

    for method, result in answers:
        try:
            validate_server_result(method, revision, result)
        except KeyError:
            # Of an extension, for example, which the types do not have.
            continue
        except ValidationError as error:
            raise AssertionError(
                f"The answer to {method} is not what {revision} says:\n{error}"
            ) from error
