"""System check of tools that hand on or send what they have written before their transaction is committed.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from concurrent.futures import Executor
from multiprocessing import Process
from threading import Thread
from typing import Any

from django.core import mail
from django.core.checks import CheckMessage, Info
from django.db.models import Model

from django_mcp.checks.code_of_entries import find_functions
from django_mcp.checks.declared import check
from django_mcp.checks.function_text import FunctionText, Instance, Known, Rows, is_super, read_text
from django_mcp.checks.misplaced_writes import find_writes
from django_mcp.checks.transactions import find_atomic_tools

_JOBS = frozenset(("apply_async", "delay", "enqueue", "enqueue_at", "enqueue_in", "send_task"))
"""The methods by which Celery, RQ, Huey, Dramatiq and Django's tasks start a job."""

_THREADS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (Thread, ("start",)),
    (Process, ("start",)),
    (Executor, ("map", "submit")),
)
"""The classes of threads and processes, with the methods that start a job."""

_SENDING = (mail.send_mail, mail.send_mass_mail, mail.mail_admins, mail.mail_managers)


@check(id="django_mcp.I021")
def check_before_commit() -> Iterator[CheckMessage]:
    """I021: a tool writes, and starts a job or sends a mail before its transaction is committed."""
    seen: set[Any] = set()
    for tool, _aliases in find_atomic_tools():
        for source, function in find_functions(tool):
            text = read_text(function)
            if text is None or text.function in seen:
                continue
            seen.add(text.function)
            calls = [call for call in text.nodes if isinstance(call, ast.Call)]
            for call in calls if _writes(text) else ():
                name = f"{ast.unparse(call.func):.80}()"
                if _starts_job(text, call):
                    yield Info(
                        f"{source} starts a job with {name} in line {call.lineno}, in the transaction in which it writes. "
                        "The job may run before the transaction is committed, and not find what was written.",
                        hint=_HINT,
                    )
                elif _sends_mail(text, call):
                    yield Info(
                        f"{source} sends a mail with {name} in line {call.lineno}, in the transaction in which it writes. "
                        "The mail has been sent if the transaction is rolled back, and is sent twice if the call runs "
                        "twice.",
                        hint=_HINT,
                    )


_HINT = (
    "Give it to transaction.on_commit(), as in transaction.on_commit(lambda: ...). If it does not depend on what is "
    "written, silence this check."
)


def _writes(text: FunctionText) -> bool:
    """Return whether a function writes, or one that it calls, such as a method of an object."""
    called = (read_text(function) for function, _line in text.find_called())
    return any(
        any(find_writes(each, each.node)) or _saves(each)
        for each in (text, *called)
        if each is not None
    )


def _saves(text: FunctionText) -> bool:
    """Return whether a function saves or deletes something, whatever it is, such as `serializer.save()`."""
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Load)
        # Those of a serializer or a form, above a method that goes on with what they made.
        and (each.attr in _SAVING or (each.attr in ("create", "update") and is_super(each.value)))
        for each in text.nodes
    )


_SAVING = frozenset(("delete", "delete_model", "save", "save_model", "save_related"))
_SAVING |= {"perform_create", "perform_destroy", "perform_update"}


def _starts_job(text: FunctionText, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    base = text.infer(call.func.value)
    if call.func.attr in _JOBS:
        return not isinstance(base, Rows | Instance)
    cls = base.cls if isinstance(base, Instance) else type(getattr(base, "value", None))
    return any(issubclass(cls, each) and call.func.attr in names for each, names in _THREADS)


def _sends_mail(text: FunctionText, call: ast.Call) -> bool:
    function = text.infer(call.func)
    if isinstance(function, Known) and any(function.value is each for each in _SENDING):
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    base = text.infer(call.func.value)
    if not isinstance(base, Instance):
        return False
    is_message = issubclass(base.cls, mail.EmailMessage) and call.func.attr == "send"
    return is_message or (issubclass(base.cls, Model) and call.func.attr == "email_user")
