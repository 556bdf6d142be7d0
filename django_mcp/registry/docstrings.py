"""Read a description, and those of the parameters, from a docstring in any common style.

Google, NumPy and Sphinx sections are understood; all other text is the description.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from django_mcp.registry.problems import innermost

if TYPE_CHECKING:
    from docstring_parser import Docstring


class Docs(Struct, frozen=True, kw_only=True):
    """The contents of a function's docstring.

    Attributes:
        description: the summary and the body, without the sections on parameters, result and
            exceptions; None if there is no text.
        parameters: description by parameter name.
    """

    description: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_docs(function: Callable[..., Any]) -> Docs:
    """Return the contents of a callable's docstring."""
    text = _docstring(function)
    if text is None or ("\n" not in text and not text.startswith((":", "@"))):
        return Docs(description=text)  # without loading the parser
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Docs(description=text)
    paragraphs = [parsed.short_description or "", parsed.long_description or ""]
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    description = gap.join(part.strip() for part in paragraphs if part.strip())
    return Docs(
        description="\n\n".join(filter(None, [description, *_further_sections(parsed)])) or None,
        parameters={
            each.arg_name.lstrip("*"): " ".join(each.description.split())
            for each in parsed.params
            if each.description
        },
    )


def _further_sections(parsed: Docstring) -> Iterator[str]:
    """Yield the notes and examples, which help a model as much as the body does."""
    from docstring_parser.common import DocstringExample, DocstringMeta

    for each in parsed.meta:
        if type(each) in (DocstringExample, DocstringMeta) and each.args:
            parts = (each.description, getattr(each, "snippet", None))
            text = "\n".join(part for part in parts if part)
            if text:
                yield f"{each.args[0].capitalize()}:\n{text}"


def _docstring(function: Callable[..., Any]) -> str | None:
    target = innermost(function)
    if not inspect.isroutine(target) and "__doc__" not in getattr(target, "__dict__", {}):
        # A callable object is described at its `__call__`, or at its class.
        call = inspect.getdoc(type(target).__call__)
        target = type(target)
        if call and call != inspect.getdoc(object.__call__):
            return call
    text = inspect.getdoc(target)
    return text.strip() or None if text else None
