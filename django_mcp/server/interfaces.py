"""What the server needs from its surroundings, as interfaces; `memory.py` has plain ones.

The Django side implements them on threads, transactions, permissions and settings. A method
without `async` in front is called on the event loop and must not block.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django_mcp.protocol.errors import Refusal
from django_mcp.registry.entries import Entry

if TYPE_CHECKING:
    from django_mcp.server.context import Context

T = TypeVar("T")


class HandlerScope(Protocol):
    """Where synchronous handlers run."""

    async def run(self, function: Callable[[], T], ctx: Context[Any]) -> T:
        """Run `function` off the event loop and return what it returns.

        What it wrote to a database is kept only if it returned and `ctx.is_cancelled` is false by
        then. When the awaiting task is cancelled the function runs on to its end, unheard.
        """
        ...


class AccessPolicy(Protocol):
    """Who may see and use what: the one place that decides it."""

    def is_visible(self, entry: Entry, principal: Any) -> bool:
        """Tell whether `entry` exists for `principal`; what is not visible is unknown to them."""
        ...

    def variant(self, principal: Any) -> Hashable | None:
        """Return a key that is equal for principals who see the same; None: all see the same."""
        ...


class Observer(Protocol):
    """Hears of each tool called, resource read and prompt filled in."""

    def answered(
        self, ctx: Context[Any], answer: bytes | Refusal | None, duration_s: float
    ) -> None:
        """Take note of a request that was answered. On the event loop; must not block or raise.

        What was called, how it failed and whether it asked stand in `ctx`.

        Args:
            ctx: the request.
            answer: the encoded result or the refusal; None: it was cancelled.
            duration_s: how long it took, waiting for a thread and being cancelled included.
        """
        ...


class FailureKind(Enum):
    """In which way a handler failed.

    TOLD is the handler's own word to the model, ARGUMENTS what cannot be converted; DENIED, MISSING
    and INVALID are exceptions that the framework has for these; FAULT is everything unforeseen.
    """

    TOLD = "told"
    ARGUMENTS = "arguments"
    DENIED = "denied"
    MISSING = "missing"
    INVALID = "invalid"
    TIMEOUT = "timeout"
    FAULT = "fault"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """How a handler failed, with a text that may be shown."""

    kind: FailureKind
    message: str
    reference: str | None = None
    """Of a fault: by which the log has it."""


class ExceptionMapper(Protocol):
    """Knows which exceptions of the framework are expected failures."""

    def map(self, error: Exception) -> Failure | None:
        """Return what `error` means to the client; None: it is a fault of ours."""
        ...


class Sealer(Protocol):
    """Makes values tamper-proof on their way through a client and back, across workers."""

    def seal(self, value: bytes) -> str:
        """Return `value` signed, as visible ASCII."""
        ...

    def unseal(self, text: str) -> bytes | None:
        """Return the value that was sealed; None when the text is not one of ours."""
        ...


class StateStore(Protocol):
    """Keeps what is too large to travel through a client, and knows which states were used.

    Every process that serves the site has the same one. Times are by the server's clock.
    """

    async def keep(self, owner: str | None, value: bytes, until_s: float) -> str:
        """Keep a value for one principal, and return the reference that leads to it."""
        ...

    async def find(self, owner: str | None, reference: str) -> bytes | None:
        """Return what a principal's reference leads to; None when it is not kept, or not theirs."""
        ...

    async def use(self, token: str, until_s: float) -> bool:
        """Note that something is used; False when it was used before, in whichever process.

        Who uses it after `until_s` is refused elsewhere, so the note need not be kept for longer.
        """
        ...


class Language(Protocol):
    """The language that lazy texts are read in now."""

    def current(self) -> str | None:
        """Return its code; None where texts are not translated."""
        ...
