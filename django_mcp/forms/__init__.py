"""Forms whose data are the arguments of a call."""

from __future__ import annotations

from django_mcp.forms.binding import (
    Limit,
    bind_form,
    check_form,
    check_new,
    end_filling,
    fill_form,
    find_chosen,
)
from django_mcp.forms.filling import data_of_initial
from django_mcp.forms.names import Naming, find_texts, iterate_named, no_names, or_name, read_texts
from django_mcp.forms.schema import (
    FormMaker,
    FormProblem,
    Tell,
    by_keys_alone,
    choices_of,
    form_schema,
    key_schema,
    offered_fields,
)

__all__ = [
    "FormMaker",
    "FormProblem",
    "Limit",
    "Naming",
    "Tell",
    "bind_form",
    "by_keys_alone",
    "check_form",
    "check_new",
    "choices_of",
    "data_of_initial",
    "end_filling",
    "fill_form",
    "find_chosen",
    "find_texts",
    "form_schema",
    "iterate_named",
    "key_schema",
    "no_names",
    "offered_fields",
    "or_name",
    "read_texts",
]
