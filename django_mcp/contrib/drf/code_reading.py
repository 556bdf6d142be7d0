"""What the code of a site's functions uses, read without running it.

`find_attributes` tells which arguments an action takes. It knows names alone: those in the function itself, behind
its decorators, and not in what it calls. So an action that leaves `filter_queryset()` to a helper has no filters as
arguments, and one that has a method of that name on another object has too many, which the view ignores. Neither
lets anybody do or see more: the view runs in any case. A site says what is missing with `query=` and `serializers=`.

`is_same_for_all` tells whether an output schema may be published, and so may err on one side alone: what it does not
know may depend on who calls.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection
from dis import Instruction, get_instructions
from inspect import getclosurevars, unwrap
from itertools import pairwise
from types import CodeType, ModuleType
from typing import Any

from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD")
QUERY_ATTRIBUTES = frozenset(["GET", "query_params"])
"""The attributes of a request that have the parameters of its query."""
_BODY_ATTRIBUTES = frozenset(["data", "POST", "body"])
_SAME_FOR_ALL = frozenset(
    ["action", "detail", "get", "get_serializer", "get_serializer_class", "get_serializer_context"]
)
"""Attributes of a view, and methods of dictionaries, that do not depend on who calls."""
_FUNCTIONS = frozenset(["__class__", "isinstance", "issubclass", "len", "super"])
_DATA = (bool, int, str, tuple, list, dict, set, frozenset)


def find_attributes(function: Any) -> frozenset[str]:
    """Return the names of the attributes and methods that the code of a function uses."""
    code = getattr(unwrap(function), "__code__", None)
    if code is None:
        return frozenset()
    return frozenset(
        instruction.argval
        for instruction in get_instructions(code)
        if instruction.opname in _ATTRIBUTES
    )


def find_keywords(function: Any) -> frozenset[str]:
    """Return the names by which the code of a function passes arguments, such as `many`."""
    code = getattr(unwrap(function), "__code__", None)
    names = [each for each in getattr(code, "co_consts", ()) if isinstance(each, tuple)]
    return frozenset(name for each in names for name in each if isinstance(name, str))


def find_query_names(function: Any) -> list[str]:
    """Return the parameters of the query that the code of a function names, as far as that is plain.

    That is `request.query_params.get("name")`, `["name"]` and the like, also of a variable that has the parameters.
    """
    code = getattr(unwrap(function), "__code__", None)
    if code is None:
        return []
    steps = [each for each in get_instructions(code) if each.opname not in _NO_STEPS]
    holders = {
        after.argval
        for step, after in pairwise(steps)
        if _is_query(step) and after.opname == "STORE_FAST"
    }
    names = []
    for place, step in enumerate(steps):
        if not (
            _is_query(step) or (step.opname.startswith("LOAD_FAST") and step.argval in holders)
        ):
            continue
        after = steps[place + 1 : place + 3]
        if after and after[0].opname in _ATTRIBUTES and after[0].argval in _GETTERS:
            del after[0]
        if after and after[0].opname == "LOAD_CONST" and isinstance(after[0].argval, str):
            names.append(after[0].argval)
    return list(dict.fromkeys(names))


def reads_body(function: Any) -> bool:
    """Return whether the code of a function reads the body of its request, as far as that is plain.

    That is `request.data` and the like, whatever the function calls its request, also in a function inside of it.
    """
    code = getattr(unwrap(function), "__code__", None)
    if code is None:
        return False
    arguments = code.co_varnames[: code.co_argcount]
    return _reads_body(code, {"request", *[name for name in arguments if name != "self"][:1]})


def _reads_body(code: CodeType, requests: Collection[str]) -> bool:
    steps = [each for each in get_instructions(code) if each.opname not in _NO_STEPS]
    return any(
        after.opname in _ATTRIBUTES
        and after.argval in _BODY_ATTRIBUTES
        and _loaded_name(step) in requests
        for step, after in pairwise(steps)
    ) or any(_reads_body(each, requests) for each in code.co_consts if isinstance(each, CodeType))


def _loaded_name(step: Instruction) -> Any:
    """Return the name of the variable or attribute that a step loads last; None if it loads none."""
    if "LOAD_FAST" not in step.opname and step.opname not in ("LOAD_DEREF", *_ATTRIBUTES):
        return None
    # Some steps of Python 3.13 load two variables, or store one and load another.
    return step.argval[-1] if isinstance(step.argval, tuple) else step.argval


_GETTERS = frozenset(["get", "getlist"])
_NO_STEPS = frozenset(["CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL"])


def _is_query(step: Instruction) -> bool:
    return step.opname in _ATTRIBUTES and step.argval in QUERY_ATTRIBUTES


def is_same_for_all(method: Any, cls: type[Any]) -> bool:
    """Return whether a method of a view gives the same to every caller, as far as its code can tell that.

    It may use plain attributes of the class, serializers, constants and the action. Whatever else it uses, such
    as the request or a function of the site, may depend on who calls.
    """
    # Not what a decorator has wrapped: the decorator decides too.
    code = getattr(method, "__code__", None)
    if code is None or any(isinstance(each, CodeType) for each in code.co_consts):
        return False
    known = {**vars(builtins), **method.__globals__, **getclosurevars(method).nonlocals}
    module: ModuleType | None = None
    for instruction in get_instructions(code):
        name, operation = instruction.argval, instruction.opname
        before, module = module, None
        if operation in ("LOAD_GLOBAL", "LOAD_DEREF"):
            value = known.get(name)
            if isinstance(value, ModuleType):
                module = value
            elif name not in _FUNCTIONS and not _is_serializer_or_data(value):
                return False
        elif operation.startswith("IMPORT_"):
            return False
        elif operation in _ATTRIBUTES:
            of_module = before is not None and _is_serializer_or_data(getattr(before, name, None))
            if not (of_module or name in _SAME_FOR_ALL or _is_plain(cls, name)):
                return False
    return True


def _is_serializer_or_data(value: Any) -> bool:
    if isinstance(value, type):
        return issubclass(value, BaseSerializer | APIView)
    return value is None or isinstance(value, _DATA)


def _is_plain(cls: type[Any], name: str) -> bool:
    """Return whether an attribute of a class is no method, property or other descriptor."""
    for each in cls.__mro__:
        if name in vars(each):
            value = vars(each)[name]
            return isinstance(value, type) or not (callable(value) or hasattr(value, "__get__"))
    return False
