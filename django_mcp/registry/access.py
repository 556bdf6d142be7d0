"""The access rules of an entry as its author declares them, and the check of a call by its arguments.

Other modules check permissions, scopes and rates.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias
from weakref import WeakSet

from msgspec import Struct

from django_mcp.registry import hints
from django_mcp.registry.problems import RegistrationError, describe_source, innermost
from django_mcp.registry.signatures import (
    CONTEXT_NAMES,
    EMPTY,
    Injectables,
    Provider,
    Signature,
    find_provider,
    is_async_callable,
    returns_nothing,
)

Permission: TypeAlias = str | Sequence[str] | Callable[..., Any] | None
"""As authors write it: a permission name, names that are all needed, or a function of the user."""

Rule: TypeAlias = str | Callable[..., Any]
"""One requirement: the name of a permission, or a function of the user."""


class Access(Struct, frozen=True, kw_only=True):
    """The access rules of an entry; the server's defaults apply where one is None.

    Attributes:
        permission: names of permissions that are all needed, or a function of the user.
        scopes: names of OAuth scopes that are all needed.
        check: a function of the user and the arguments of a call.
        listed_if: a function of the user that has to hold as well, whatever `permission` is.
    """

    permission: tuple[str, ...] | Callable[..., Any] | None = None
    scopes: tuple[str, ...] | None = None
    check: Callable[..., Any] | None = None
    listed_if: Callable[..., Any] | None = None

    def rules(self, default: Access) -> frozenset[Rule]:
        """Return what has to hold for a user to see the entry.

        The permission of the server's `default` counts if the entry has none of its own.
        """
        permission = default.permission if self.permission is None else self.permission
        rules: list[Rule] = [permission] if callable(permission) else list(permission or ())
        return frozenset(rules if self.listed_if is None else [*rules, self.listed_if])


OPEN = Access()
"""No rules of its own."""


class Rate(Struct, frozen=True, kw_only=True):
    """A number of calls in a number of seconds."""

    limit: int
    period_s: int

    def __str__(self) -> str:
        return f"{self.limit}/{self.period_s}s"


def read_access(
    source: str,
    *,
    permission: Permission = None,
    scopes: str | Sequence[str] | None = None,
    check: Callable[..., Any] | None = None,
    listed_if: Callable[..., Any] | None = None,
) -> Access:
    """Return the access rules that an author declared."""
    if permission is not None and callable(permission) and is_async_callable(permission):
        raise RegistrationError(
            f"{source}: permission= takes a synchronous function. Write it with def."
        )
    if not (permission is None or callable(permission)):
        permission = _names(permission, "permission", source)
    for option, function in (("permission", permission), ("listed_if", listed_if)):
        if callable(function) and not takes_user(function):
            raise RegistrationError(
                f"{source}: {option}= takes a function of the user alone, which "
                f"{describe_source(function)} is not. What depends on arguments is a check=."
            )
        fault = find_fault(function)
        if fault is not None:
            raise RegistrationError(
                f"{source}: {option}= {describe_source(function)} {fault}."  # type: ignore[arg-type]
            )
    return Access(
        permission=permission,
        scopes=read_scopes(scopes, source),
        check=check,
        listed_if=listed_if,
    )


def find_fault(rule: object) -> str | None:
    """Return why a function decides the same for all callers; None if it does not, or is no function.

    The text has no subject: "never returns a value".
    """
    if not callable(rule):
        return None
    if returns_nothing(rule):
        return "never returns a value, and so refuses everybody: let it return True or False"
    made = innermost(rule)
    if isinstance(made, type) and _is_always_true(made):
        return (
            "makes an object, which is always true: use a function, or an object that can be called"
        )
    return None


def read_verdict(verdict: Any) -> bool:
    """Return whether a permission function or a check allows something: True does, and nothing else.

    Raises:
        TypeError: it returned neither True nor False, nor None, which is what functions without a `return` give.
    """
    if verdict is None or isinstance(verdict, bool):
        return verdict is True
    if inspect.iscoroutine(verdict):
        verdict.close()
        raise TypeError(
            "it returned a coroutine, which is always true: call the synchronous method, such as "
            "has_perm() for ahas_perm(). Only an asynchronous handler can have a check with async def"
        )
    if inspect.isroutine(verdict) or inspect.isclass(verdict):
        kind = "class" if inspect.isclass(verdict) else "function"
        name = verdict.__name__
        raise TypeError(
            f"it returned the {kind} {name} itself, which is always true: call it, as in {name}(...)"
        )
    raise TypeError(
        f"it returned an object of {type(verdict).__name__}: return True or False, as with bool(...), or .exists() "
        "for rows"
    )


def _is_always_true(kind: type) -> bool:
    """Return whether all objects of a class count as true."""
    return not (hasattr(kind, "__bool__") or hasattr(kind, "__len__"))


def note_verdict(rule: Callable[..., Any], verdict: object) -> None:
    """Remember whether a permission function returned None, as it does where a `return` is missing."""
    with suppress(TypeError):  # an object that cannot be referred to weakly
        (_returned_none.add if verdict is None else _returned_none.discard)(rule)


def has_returned_none(rule: Callable[..., Any]) -> bool:
    """Return whether a permission function returned None when it was asked last in this process."""
    try:
        return rule in _returned_none
    except TypeError:
        return False


_returned_none: WeakSet[Callable[..., Any]] = WeakSet()


def takes_user(function: Callable[..., Any]) -> bool:
    """Return whether a function can be called with the user alone, as far as its signature tells."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        bound = signature.bind(None)
    except TypeError:
        return False
    # With one of these names it expects what has a user, and would fail in each call.
    return not bound.arguments.keys() & CONTEXT_NAMES.keys()


def read_scopes(given: str | Sequence[str] | None, source: str) -> tuple[str, ...] | None:
    """Return names of scopes; None if none were given, `()` if the author wants none."""
    if given is None:
        return None
    scopes = _names(given, "scopes", source)
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise RegistrationError(
                f"{source}: {scope!r} is not a scope. Use visible ASCII without spaces, quotes and "
                "backslashes, and a list for several."
            )
    return scopes


# RFC 6749 section 3.3.
_SCOPE = re.compile(r"[!#-\[\]-~]+")


_RATE = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,5})?(s|sec|second|m|min|minute|h|hour|d|day)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def read_rate(text: object) -> Rate:
    """Return a rate such as `"10/m"`, `"5/second"` or `"100/15min"`."""
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f"{text!r} is not a rate: write a number, / and s, m, h or d, as in '10/m'"
        )
    limit, many, unit = match.groups()
    return Rate(limit=int(limit), period_s=int(many or 1) * _SECONDS[unit[0]])


def read_rates(given: Mapping[str, str] | None) -> dict[str, Rate]:
    """Return rates by what they count: `principal`, `address`, `failures`."""
    for name in given or {}:
        if name not in ("principal", "address", "failures"):
            raise ValueError(
                f"rates cannot count {name!r}: use 'principal', 'address' or 'failures'"
            )
    return {name: read_rate(text) for name, text in (given or {}).items()}


def _names(given: str | Sequence[str], option: str, source: str) -> tuple[str, ...]:
    try:
        names = (given,) if isinstance(given, str) else tuple(given)
    except TypeError:
        names = (None,)  # type: ignore[assignment]
    if isinstance(given, Mapping) or not all(type(name) is str and name for name in names):
        raise RegistrationError(f"{source}: {option}= takes a name or a list of names.")
    return names


# -- checks of a call by its arguments


class Forbidden(Exception):
    """A check denied the call or failed; the client gets the error for something nonexistent."""


class ObjectCheck(Struct, frozen=True, kw_only=True, eq=False):
    """A check, ready to run.

    Attributes:
        function: called with the subject, and arguments by name.
        is_async: whether it has to be awaited.
        provide_subject: returns the subject, usually the user, from the context of a request.
        names: the arguments it takes.
        whole: the handler's parameter for all arguments as one dict, which holds them then.
        defaults: of arguments that a call may leave out.
        convert: takes the context and the arguments in `whole`, and returns them as the handler will use
            them, or raises what the handler would; None: it uses them as they are.
    """

    function: Callable[..., Any]
    is_async: bool
    provide_subject: Provider
    names: tuple[str, ...]
    defaults: Mapping[str, Any]
    whole: str | None = None
    convert: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]] | None = None

    def answer(self, ctx: Any, arguments: Mapping[str, Any]) -> Any:
        """Return what a synchronous function returns that takes what a check takes."""
        return self.ask(ctx, self._convert(ctx, arguments))

    def demand(self, ctx: Any, arguments: Mapping[str, Any]) -> None:
        """Run a synchronous check; raises `Forbidden` unless it allows the call."""
        arguments = self._convert(ctx, arguments)
        try:
            allowed = self.ask(ctx, arguments)
        except (Exception, SystemExit) as error:  # a failing check denies the call
            raise Forbidden from error
        _demand(allowed)

    async def ademand(self, ctx: Any, arguments: Mapping[str, Any]) -> None:
        """Run an asynchronous check; see `demand`."""
        arguments = self._convert(ctx, arguments)
        try:
            allowed = await self.ask(ctx, arguments)
        except (Exception, SystemExit) as error:
            raise Forbidden from error
        _demand(allowed)

    def _convert(self, ctx: Any, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.whole is None:
            return arguments
        given = arguments[self.whole]
        return {**(given if self.convert is None else self.convert(ctx, given)), **arguments}

    def ask(self, ctx: Any, arguments: Mapping[str, Any]) -> Any:
        """Return what the function returns."""
        known = {
            **self.defaults,
            **{name: arguments[name] for name in self.names if name in arguments},
        }
        return self.function(self.provide_subject(ctx), **known)


def _demand(allowed: object) -> None:
    try:
        is_allowed = read_verdict(allowed)
    except TypeError as error:
        raise Forbidden from error
    if not is_allowed:
        raise Forbidden


def read_check(
    function: Callable[..., Any],
    signature: Signature,
    *,
    is_async_handler: bool,
    injectables: Injectables,
    provide_user: Provider,
    properties: Sequence[str] = (),
    word: str = "check",
) -> ObjectCheck:
    """Return the check of the handler with this signature.

    Its first parameter is the subject: the value its annotation is injected with, else the context
    if it is called `ctx`, else the user. The others are arguments of the handler; it takes those it
    needs. Where the handler takes all arguments as one dict, `properties` are their names. `word` is what
    errors call the function.
    """
    source = f"{signature.source}: the {word} {describe_source(function)}"
    is_async = is_async_callable(function)
    if is_async and not is_async_handler:
        raise RegistrationError(f"{source} is asynchronous, the handler is not. Write it with def.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{source} has no signature ({error}).") from None
    if not parameters or parameters[0].kind is inspect.Parameter.VAR_KEYWORD:
        raise RegistrationError(f"{source} has no parameter. Write {word}(user, **arguments).")
    first, others = parameters[0], {parameter.name: parameter for parameter in parameters[1:]}
    given = {parameter.name: parameter for parameter in signature.parameters}
    all_names = tuple(properties or given)
    names = tuple(name for name in others if name in given or name in properties)
    for name, each in others.items():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            names = all_names
        elif name not in names and each.default is EMPTY:
            raise RegistrationError(
                f"{source} takes {name}, but the arguments are {', '.join(all_names) or 'none'}. "
                f"Give both the same names."
            )
    provide_subject = None
    if first.annotation is not EMPTY:
        annotation = hints.resolve_hints(function, source).get(first.name, Any)
        provide_subject = find_provider(annotation, injectables)
    if provide_subject is None:
        provide_subject = (lambda ctx: ctx) if first.name == "ctx" else provide_user
    return ObjectCheck(
        function=function,
        is_async=is_async,
        provide_subject=provide_subject,
        names=names,
        defaults={
            name: given[name].default
            for name in names
            if name in given and given[name].default is not EMPTY
        },
        whole=next(iter(given)) if properties and given else None,
        convert=getattr(signature.function, "convert_for_check", None),
    )
