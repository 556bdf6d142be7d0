"""Match the regular expressions of schemas in linear time.

Python's `re` and ECMAScript's engine need exponential time for some pattern and text, and the text
is the client's. Patterns run on the engine of pydantic instead (Rust's `regex`, as in
jsonschema-rs), which has neither look-around nor back-references; who uses those is told at
registration.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

__all__ = ["compile_pattern"]

_CLASSES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[A-Za-z0-9_]",
    "W": "[^A-Za-z0-9_]",
}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    r"""Return a function that tells whether a pattern occurs in a text.

    `\d` and `\w` mean ASCII, as in ECMAScript (JSON Schema 2020-12 core, section 6.4).

    Raises:
        ValueError: it is no pattern, or one that cannot be matched in linear time.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    translated = _ESCAPE.sub(lambda found: _CLASSES.get(found[1], found[0]), pattern)
    try:
        validator = SchemaValidator(
            core_schema.str_schema(pattern=translated, regex_engine="rust-regex", strict=True)
        )
    except (SchemaError, UnicodeEncodeError) as error:
        lines = str(error).splitlines()
        reason = next((line[7:] for line in lines if line.startswith("error: ")), lines[-1])
        raise ValueError(reason) from error
    return validator.isinstance_python
