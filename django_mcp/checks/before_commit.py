"""System check of tools that hand on or send what they have written before their transaction is committed.

Functions are read, and not run. Only what their text and the modules around them make certain is told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from django.core import mail
from django.core.checks import CheckMessage, Info
from django.db.models import Model

from django_mcp.checks.declared import check
from django_mcp.checks.function_text import FunctionText, Instance, Known, Rows, read_text
from django_mcp.checks.misplaced_writes import find_writes
from django_mcp.checks.transactions import find_atomic_tools

_JOBS = frozenset(("apply_async", "delay", "enqueue", "enqueue_at", "enqueue_in", "send_task"))
"""The methods by which Celery, RQ, Huey, Dramatiq and Django's tasks start a job."""

_SENDING = (mail.send_mail, mail.send_mass_mail, mail.mail_admins, mail.mail_managers)


@check(id="django_mcp.I021")
def check_before_commit() -> Iterator[CheckMessage]:
    """I021: a tool writes, and starts a job or sends a mail before its transaction is committed."""
    for tool, _aliases in find_atomic_tools():
        text = read_text(tool.handler.origin)
        if text is None or not _writes(text):
            continue
        for call in text.nodes:
            if not isinstance(call, ast.Call):
                continue
            name = f"{ast.unparse(call.func):.80}()"
            if _starts_job(text, call):
                yield Info(
                    f"{tool.source} starts a job with {name} in line {call.lineno}, in the transaction in which it writes. "
                    "The job may run before the transaction is committed, and not find what was written.",
                    hint=_HINT,
                )
            elif _sends_mail(text, call):
                yield Info(
                    f"{tool.source} sends a mail with {name} in line {call.lineno}, in the transaction in which it writes. "
                    "The mail has been sent if the transaction is rolled back, and is sent twice if the call runs twice.",
                    hint=_HINT,
                )


_HINT = (
    "Give it to transaction.on_commit(), as in transaction.on_commit(lambda: ...). If it does not depend on what is "
    "written, silence this check."
)


def _writes(text: FunctionText) -> bool:
    """Return whether a function writes, or one that it calls, such as a method of an object."""
    if any(find_writes(text, text.node)):
        return True
    called = (read_text(function) for function, _line in text.find_called())
    return any(
        any(find_writes(each, each.node)) or _saves_itself(each)
        for each in called
        if each is not None
    )


def _saves_itself(text: FunctionText) -> bool:
    return any(
        isinstance(each, ast.Attribute)
        and each.attr in ("delete", "save")
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
        for each in text.nodes
    )


def _starts_job(text: FunctionText, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _JOBS:
        return False
    base = text.infer(call.func.value)
    return not isinstance(base, Rows | Instance)


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
