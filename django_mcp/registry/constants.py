"""Find the fixed values in a schema that rule out an alternative without trying it.

In a recursive `anyOf`, trying each alternative to its end doubles the work with each level of the
value, even if a constant such as `{"op": {"const": "and"}}` distinguishes them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from django_mcp.protocol.json import JSONObject
from django_mcp.registry.schemas import CheckedSchema
from django_mcp.registry.walking import children

__all__ = ["Constants", "find_constants"]

Constants: TypeAlias = dict[int, JSONObject]
"""The properties of an alternative with a `const` or an `enum`, as schemas, by its `id`."""

_MAX_REFERENCES = 10


def find_constants(checked: CheckedSchema) -> Constants:
    """Return the properties with fixed values of all alternatives in a schema."""
    found: Constants = {}
    if checked.keywords & {"$id", "id"}:  # references may start elsewhere than at the root
        return found
    keywords = {"enum"} if checked.dialect.validator == "Draft4Validator" else {"const", "enum"}
    waiting: list[Any] = [checked.schema]
    while waiting:
        node = waiting.pop()
        for child in children(node):
            waiting.append(child.schema)
            if child.path[0] in ("anyOf", "oneOf"):
                constants = _constants(_resolve(checked.schema, child.schema), keywords)
                if constants:
                    found[id(child.schema)] = constants
    return found


def _resolve(root: JSONObject, branch: Any) -> Any:
    """Return the target of a branch's reference, or the branch itself if it is not easily found."""
    for _ in range(_MAX_REFERENCES):
        reference = branch.get("$ref") if isinstance(branch, dict) else None
        if not isinstance(reference, str):
            return branch
        target: Any = root
        for name in reference.split("/")[1:]:
            target = target.get(name) if isinstance(target, dict) else None
        if not reference.startswith("#/") or target is None:
            return None
        branch = target
    return None


def _constants(branch: Any, keywords: set[str]) -> JSONObject:
    properties = branch.get("properties") if isinstance(branch, dict) else None
    return {
        name: schema
        for name, schema in (properties or {}).items()
        if isinstance(schema, dict) and keywords & schema.keys()
    }
