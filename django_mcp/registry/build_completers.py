"""Build completers of arguments from functions, and from the choices of a type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django_mcp.protocol.results import Completion
from django_mcp.registry import hints
from django_mcp.registry.access import Access
from django_mcp.registry.arguments import Handler, read_chosen
from django_mcp.registry.building import Surroundings, listed, make_handler
from django_mcp.registry.problems import RegistrationError
from django_mcp.registry.replies import completion_converter
from django_mcp.registry.signatures import Signature

COMPLETER_PARAMETERS = ("value", "arguments")
"""Parameters of a completer of one argument: the text so far, and the other arguments."""

GLOBAL_COMPLETER_PARAMETERS = ("ref", "argument", *COMPLETER_PARAMETERS)
"""Parameters of the global completer, which also gets the reference and the argument's name."""

_OPEN = Access()


def build_completer(
    function: Callable[..., Any],
    surroundings: Surroundings,
    known: Sequence[str] = COMPLETER_PARAMETERS,
    access: Access = _OPEN,
) -> Handler:
    """Return a completer from a function that takes any of the known parameters."""
    signature = surroundings.read(function)
    names = [each.name for each in signature.parameters]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise RegistrationError(
            f"{signature.source}: a completer does not receive {listed(unknown)}. "
            f"It may take {listed(known)}, and what is injected by its type."
        )
    convert = completion_converter(surroundings.converter)
    return make_handler(signature, read_chosen(names), convert, access, surroundings)


def choice_completers(signature: Signature) -> dict[str, Handler]:
    """Return completers for the parameters whose types list their values."""
    completers = {}
    for parameter in signature.parameters:
        choices = hints.find_choices(parameter.annotation)
        if choices is not None:
            completers[parameter.name] = _complete_from(list(choices), signature.source)
    return completers


def _complete_from(choices: list[str], source: str) -> Handler:
    # Asynchronous, so that it does not need a thread.
    async def propose(value: str) -> Completion:
        return Completion.matching(value, choices)

    return Handler(
        function=propose,
        is_async=True,
        injections=(),
        read=read_chosen(["value"]),
        convert=lambda completion: completion,
        origin=propose,
        source=source,
    )
