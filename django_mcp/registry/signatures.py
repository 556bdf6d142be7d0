"""Read how a function of the site is called: its parameters, its docstring, whether it is asynchronous or returns anything.

A parameter is an argument of the client, or filled by the server, which defines the types and where
their values come from (`injectables`).
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ContextDecorator
from functools import lru_cache, partial, update_wrapper
from types import CellType, CodeType, NoneType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_origin

from msgspec import Struct
from msgspec.structs import replace

from django_mcp.protocol.errors import ToolError
from django_mcp.protocol.json import is_lazy
from django_mcp.registry import field_validators, hints
from django_mcp.registry.problems import RegistrationError, describe_source, innermost

if TYPE_CHECKING:
    from docstring_parser import Docstring

F = TypeVar("F", bound=Callable[..., Any])

EMPTY: Any = inspect.Parameter.empty
"""No default, or no annotation."""

CONTEXT_NAMES = {"ctx": "Context", "context": "Context", "request": "HttpRequest"}
"""Names that authors give to parameters for what the server fills, and its types."""

_REFUSED_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*{}",
    inspect.Parameter.VAR_KEYWORD: "**{}",
    inspect.Parameter.POSITIONAL_ONLY: "{}, /",
}


Provider: TypeAlias = Callable[[Any], Any]
"""Takes the context of a request and returns a parameter's value; None: there is no value.

It raises `Unavailable` if the request cannot have one.
"""

Injectables: TypeAlias = Callable[[Any], Provider | None]
"""Takes an annotation and returns its provider; None for an argument of the client."""


def named(made: F, name: str, *, like: Callable[..., Any] | None = None, owner: str = "") -> F:
    """Rename a generated method, and copy the other metadata from `like`."""
    if like is not None:
        update_wrapper(made, like)
    made.__name__ = name
    made.__qualname__ = f"{owner or made.__qualname__.rpartition('.')[0]}.{name}"
    return made


class Unavailable(ToolError):
    """A handler needs something this connection does not have, such as an HTTP request on stdio.

    It is a `ToolError`, since clients may read the text.
    """


class Parameter(Struct, frozen=True, kw_only=True):
    """One argument that the client passes.

    Attributes:
        name: the function's name for it, which clients use as well.
        annotation: its type with everything in `Annotated`; `Any` if there is none.
        default: the function's own; `EMPTY` if it has none.
        is_required: whether a call has to give it.
        title, description: for people and models; may be lazy texts.
    """

    name: str
    annotation: Any
    default: Any = EMPTY
    is_required: bool = True
    title: Any = None
    description: Any = None


class Signature(Struct, frozen=True, kw_only=True):
    """How a handler is called.

    Attributes:
        function: the handler as it was given.
        source: where it is defined, for messages.
        parameters: what the client passes, in order.
        injections: what the server fills, by parameter.
        returns: the annotation of the result; `EMPTY` if there is none.
        description: from its docstring.
    """

    function: Callable[..., Any]
    source: str
    parameters: tuple[Parameter, ...]
    injections: Mapping[str, Provider]
    returns: Any
    description: str | None


def read_signature(
    function: Callable[..., Any],
    injectables: Injectables,
    validators: field_validators.FieldValidators,
) -> Signature:
    """Return the signature of a function, method, partial or callable object."""
    source = describe_source(function)
    named = _named_parameters(function, source)
    known = hints.resolve_hints(function, source)
    text, texts = read_docs(function)
    parameters: list[Parameter] = []
    injections: dict[str, Provider] = {}
    for given_parameter in named:
        if given_parameter.name in CONTEXT_NAMES and given_parameter.name not in known:
            raise RegistrationError(
                f"{source}: the parameter `{given_parameter.name}` has no annotation, so clients would have to "
                f"send it. Write `{given_parameter.name}: {CONTEXT_NAMES[given_parameter.name]}` to get it from the server, "
                f"or annotate it with the type that clients send."
            )
        annotation = field_validators.with_validators(
            known.get(given_parameter.name, Any), validators
        )
        fault = hints.find_fault(annotation)
        if fault is not None:
            raise RegistrationError(
                f"{source}: the annotation of the parameter `{given_parameter.name}`: {fault}."
            )
        try:
            provider = find_provider(annotation, injectables)
        except RegistrationError as error:
            raise RegistrationError(
                f"{source}: the parameter `{given_parameter.name}` {error}"
            ) from None
        if provider is not None:
            injections[given_parameter.name] = provider
        else:
            parameter = _read_parameter(
                given_parameter.name, annotation, given_parameter.default, source, validators
            )
            if parameter.description is None and given_parameter.name in texts:
                parameter = replace(parameter, description=texts[given_parameter.name])
            parameters.append(parameter)
    fault = hints.find_fault(known.get("return"))
    if fault is not None:
        raise RegistrationError(f"{source}: the return annotation: {fault}.")
    return Signature(
        function=function,
        source=source,
        parameters=tuple(parameters),
        injections=injections,
        returns=known.get("return", EMPTY),
        description=text,
    )


def _named_parameters(function: Callable[..., Any], source: str) -> list[inspect.Parameter]:
    if isinstance(function, type):
        raise RegistrationError(
            f"{source}: a class is not a handler. Write a function that uses it."
        )
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        if isinstance(function, str):
            raise RegistrationError(
                f"{function!r} is no function. Write name={function!r}, and give the function."
            ) from None
        raise RegistrationError(
            f"{source}: its signature cannot be read ({error}). Wrap it in a plain function."
        ) from None
    for given_parameter in parameters:
        if given_parameter.kind in _REFUSED_KINDS:
            written = _REFUSED_KINDS[given_parameter.kind].format(given_parameter.name)
            raise RegistrationError(
                f"{source}: the parameter `{written}` cannot be named by a client. "
                f"Write out each argument as an ordinary parameter.{_tell_wraps(function)}"
            )
    _check_bound(function, parameters, source)
    _check_wrapper(function, parameters, source)
    guard = find_view_guard(function)
    if guard is not None:
        raise RegistrationError(
            f"{source}: @{guard} of REST framework guards views and not handlers: write permission=, "
            f"check= or throttle=."
        )
    # Clients may not change what a partial has fixed by name.
    fixed = function.keywords if isinstance(function, partial) else {}
    return [parameter for parameter in parameters if parameter.name not in fixed]


def _tell_wraps(function: Any) -> str:
    """Return what to add for a function that seems to be the wrapper of a decorator, which hides the parameters."""
    if hasattr(function, "__wrapped__"):
        return ""
    for cell in getattr(function, "__closure__", None) or ():
        wrapped = None if cell == CellType() else cell.cell_contents
        if inspect.isfunction(wrapped):
            return (
                f" If it stands for {wrapped.__qualname__}, write @functools.wraps(...) above `def "
                f"{function.__name__}` in the decorator, which passes on the parameters."
            )
    return ""


def _check_bound(function: Callable[..., Any], found: list[inspect.Parameter], source: str) -> None:
    qualified = getattr(function, "__qualname__", "")
    is_in_class = "." in qualified and not qualified.rpartition(".")[0].endswith("<locals>")
    if is_in_class and not inspect.ismethod(function) and found:
        first = found[0]
        if first.name in ("self", "cls") and first.annotation is EMPTY:
            raise RegistrationError(
                f"{source}: `{first.name}` would be an argument of the client. Register the bound "
                f"method instead: `server.register_tool(instance.{function.__name__})`."
            )


def _check_wrapper(
    function: Callable[..., Any], parameters: list[inspect.Parameter], source: str
) -> None:
    """Refuse a function whose decorator needs an argument that the function inside does not take."""
    if not hasattr(function, "__wrapped__"):
        return
    taken = {parameter.name for parameter in parameters}
    try:
        outers = inspect.signature(function, follow_wrapped=False).parameters.values()
    except ValueError:  # a decorator in C, such as that of a cache, before Python 3.12
        return
    for outer in outers:
        is_needed = outer.default is EMPTY and outer.kind not in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        )
        if is_needed and outer.name not in taken:
            raise RegistrationError(
                f"{source}: a decorator of it needs `{outer.name}`, which its calls do not have. Decorators of "
                f"views, such as login_required, are not for handlers: write permission= or check=."
            )


def find_view_guard(function: Any) -> str | None:
    """Return the name of the decorator of REST framework by which a function seems to be guarded, or None."""
    stored = getattr(function, "__dict__", {})
    return next((name for name in _VIEW_GUARDS if name in stored), None)


_VIEW_GUARDS = (
    "permission_classes",
    "authentication_classes",
    "throttle_classes",
    "throttle_scope",
)
"""Attributes that decorators set on a function, and that only views of REST framework read."""


def _read_parameter(
    name: str,
    annotation: Any,
    default: Any,
    source: str,
    validators: field_validators.FieldValidators,
) -> Parameter:
    if is_field(default):  # `limit: int = Field(20, ge=1)`
        annotation, default = Annotated[annotation, default], EMPTY
    for each in field_validators.find_metadata(annotation):
        fault = field_validators.find_fault(each, validators)
        if fault is not None:
            raise RegistrationError(f"{source}: the annotation of the parameter `{name}`: {fault}.")
    title, description, has_default = None, None, default is not EMPTY
    inner, metadata = hints.strip_with_metadata(annotation)
    optional = hints.find_optional(inner)
    if optional is not None:
        metadata = (*hints.strip_with_metadata(optional)[1], *metadata)
    for each in metadata:
        if isinstance(each, str) or is_lazy(each):
            description = each
        elif type(each).__name__ == "Doc" and hasattr(each, "documentation"):
            description = each.documentation
        elif is_field(each):
            if each.alias is not None or each.validation_alias is not None:
                raise RegistrationError(
                    f"{source}: the parameter `{name}` has an alias. "
                    f"Give the parameter the name that clients are to write."
                )
            title = title or each.title
            description = each.description if description is None else description
            has_default = has_default or not each.is_required()
    return Parameter(
        name=name,
        annotation=annotation,
        default=default,
        is_required=not has_default,
        title=title,
        description=inspect.cleandoc(description) if isinstance(description, str) else description,
    )


def is_field(value: Any) -> bool:
    """Return whether a value is a pydantic `Field(...)`, without importing pydantic."""
    kind = type(value)
    return kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic.")


# -- parameters that the server fills


def find_provider(annotation: Any, injectables: Injectables) -> Provider | None:
    """Return the provider of a parameter with this annotation; None: it is an ordinary argument.

    The annotation is tried as it is, then without its type arguments. For `Optional[T]`, and for
    any union whose parts all have providers, the first part's provider is used. If it returns
    None and the annotation does not allow None, the call fails.

    Raises:
        RegistrationError: no request can have such a value.
    """
    plain = hints.strip(annotation)
    provider = injectables(plain) or _of_parts(plain, injectables)
    if provider is None:
        return None
    is_nullable = hints.is_nullable(plain)
    name = getattr(plain, "__name__", str(plain))

    def provide(ctx: Any) -> Any:
        try:
            value = provider(ctx)
        except Unavailable:
            if not is_nullable:
                raise
            return None
        if value is None and not is_nullable:
            raise Unavailable(f"This needs a {name}, which this connection does not have.")
        return value

    return provide


def _of_parts(annotation: Any, injectables: Injectables) -> Provider | None:
    providers = []
    for part in hints.members(annotation):
        origin = get_origin(part)
        if part is not NoneType:
            injected = injectables(part) or (
                injectables(origin) if isinstance(origin, type) else None
            )
            providers.append(injected)
    return providers[0] if providers and all(providers) else None


# -- docstrings


def read_docs(function: Callable[..., Any]) -> tuple[str | None, Mapping[str, str]]:
    """Return the description in a callable's docstring, and those of its parameters by name.

    The first is the summary, the body, notes and examples, without the sections on parameters, result
    and exceptions; None if there is no text.
    """
    text = _docstring(function)
    if text is None or ("\n" not in text and not text.startswith((":", "@"))):
        return text, {}  # without loading the parser
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    paragraphs = [parsed.short_description or "", parsed.long_description or ""]
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    description = gap.join(part.strip() for part in paragraphs if part.strip())
    # NumPy's style describes several at once: `x, y : int`. Google's has a section on attributes as well.
    parameters = {
        name.strip().lstrip("*"): " ".join(param.description.split())
        for param in parsed.params
        if param.description and param.args[0] != "attribute"
        for name in param.arg_name.split(",")
    }
    return "\n\n".join(filter(None, [description, *_further_sections(parsed)])) or None, parameters


def _further_sections(parsed: Docstring) -> Iterator[str]:
    """Yield the notes and examples, which help a model as much as the body does."""
    from docstring_parser.common import DocstringExample, DocstringMeta

    for section in parsed.meta:
        if type(section) in (DocstringExample, DocstringMeta) and section.args:
            parts = (section.description, getattr(section, "snippet", None))
            text = "\n".join(part for part in parts if part)
            if text:
                yield f"{section.args[0].capitalize()}:\n{text}"


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


# -- asynchronous functions


class Yielded(list[Any]):
    """The values that an asynchronous generator yielded: the parts of one result."""


def prepare_function(function: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """Return the function to call, and whether it is asynchronous.

    An asynchronous generator becomes a coroutine function that returns all it yields.
    """
    target = _called(function)
    if not inspect.isasyncgenfunction(target):
        return function, is_async_callable(function)

    async def collect(**arguments: Any) -> Yielded:
        return Yielded([item async for item in function(**arguments)])

    return update_wrapper(collect, function, updated=()), True


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Return whether calling a function, method, partial or object returns an awaitable."""
    target = _called(function)
    # asgiref marks functions this way before Python 3.12.
    return (
        inspect.iscoroutinefunction(function)
        or inspect.iscoroutinefunction(target)
        or getattr(function, "_is_coroutine", None) is not None
    )


def hides_coroutine(function: Callable[..., Any]) -> bool:
    """Return whether a synchronous decorator returns the coroutine of an `async def` function, which nobody awaits.

    It is sure of decorators that return what their function does, and of those of `contextlib.ContextDecorator`, such
    as `transaction.atomic`, which are at their end before the function runs. Others may run the coroutine.
    """
    target = _called(function)
    is_hidden = False
    while not is_async_callable(function):
        wrapped: Any = getattr(target, "__wrapped__", None)
        code = getattr(target, "__code__", None)
        if wrapped is None:
            return False
        # A cache, which is written in C and has no code, returns the same coroutine again.
        is_known = code is _IN_CONTEXT or (code is None and type(target).__module__ == "functools")
        if not is_known and (code is None or not _passes_on(target, wrapped)):
            return False
        function, target, is_hidden = wrapped, wrapped, True
    return is_hidden


_IN_CONTEXT = next(
    each for each in ContextDecorator.__call__.__code__.co_consts if isinstance(each, CodeType)
)
"""The code of each function that a `ContextDecorator` decorates."""


def returns_nothing(function: Callable[..., Any]) -> bool:
    """Return whether a function returns None however it ends, as one without `return` does.

    One that only raises exceptions, that yields, or that is abstract is not meant. A partial, a method, an object
    that is called, and a decorator that passes on what its function returns are what they call.
    """
    target = _called(function)
    target = getattr(target, "__func__", target)
    if getattr(target, "__isabstractmethod__", False):
        return False
    code = getattr(target, "__code__", None)
    if code is not None and _ends_without_value(code):
        return True
    wrapped: Any = getattr(target, "__wrapped__", None)
    # Decorators in C, such as that of a cache, have no code.
    passes_on = wrapped is not None and (code is None or _passes_on(target, wrapped))
    return passes_on and returns_nothing(wrapped)


def _passes_on(wrapper: Any, wrapped: Any) -> bool:
    """Return whether a decorator returns what its function returns, and nothing else: `return function(...)`."""
    cells = zip(wrapper.__code__.co_freevars, wrapper.__closure__ or (), strict=True)
    names = {name for name, cell in cells if cell != _EMPTY_CELL and cell.cell_contents is wrapped}
    calls, before, is_called = 0, "", False
    for each in dis.get_instructions(wrapper.__code__):
        name = each.opname
        if name == "LOAD_DEREF" and each.argval in names:
            calls, is_called = 0, True
        elif name in _CALLS:
            calls += 1
        elif name == "RETURN_CONST" or (
            name == "RETURN_VALUE" and (before not in _CALLS or calls != 1 or each.is_jump_target)
        ):
            return False
        before = name
    return is_called


_CALLS = ("CALL", "CALL_KW", "CALL_FUNCTION_EX")
_EMPTY_CELL = CellType()


@lru_cache(maxsize=1_000)
def _ends_without_value(code: CodeType) -> bool:
    """Return what `returns_nothing` does. All generated tools have the same code."""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        return False
    before = None
    has_ended = False
    for each in dis.get_instructions(code):
        if each.opname == "RETURN_CONST":  # of Python 3.12
            is_none = each.argval is None
        elif each.opname == "RETURN_VALUE":
            # A jump to it brings another value.
            is_none = before == ("LOAD_CONST", None) and not each.is_jump_target
        else:
            before = (each.opname, each.argval)
            continue
        if not is_none:
            return False
        has_ended = True
    return has_ended


def _called(function: Callable[..., Any]) -> Any:
    target = innermost(function)
    return target if inspect.isroutine(target) else type(target).__call__
