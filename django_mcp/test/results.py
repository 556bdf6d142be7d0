"""Results of the test client, which warn of errors that a test has not noticed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from django_mcp.inprocess.results import CallResult
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.problems import clip


class UnnoticedError(UserWarning):
    """A test may pass for the wrong reason.

    It looks in vain for a text in the error of a call, or only whether there is any, and has not looked at
    `is_error` before: `assert "secret" not in client.call("report", wrong=1).text` would pass, since the call has
    failed, and so would `assert client.call("report", wrong=1).text`. It never looks at the result of a call that
    failed. Or it gave answers to questions that nothing asked.
    """


class ClientCallResult(CallResult):
    """The result of a call of the test client.

    A test has noticed an error if it has read `is_error`, `structured` or the truth of the result, or has found in
    `text` what it looked for. It has looked at the result if it has read anything of it.
    """

    def __init__(self, tool: str, raw: JSONObject) -> None:
        super().__init__(raw=raw)
        vars(self).update(_tool=tool, _is_noticed=False, _is_read=False)  # the class is frozen

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if not name.startswith("_"):
            vars(self).update(_is_read=True)
        return value

    def _describe_unread(self) -> str | None:
        """Return what is wrong with a test that read nothing of this error; None if it did."""
        if vars(self)["_is_read"]:
            return None
        result = CallResult(raw=vars(self)["raw"])
        return (
            f"The call of {vars(self)['_tool']!r} failed, and the test did not look at its result, so that it may pass "
            f"whatever the tool does. Look at is_error. The error is: {clip(result.text)}"
        )

    @property
    def is_error(self) -> bool:
        """Whether it is an error for the model, described by `text`."""
        self._notice()
        return super().is_error

    @property
    def text(self) -> str:
        """The text blocks, a line each."""
        text = super().text
        return _TextOfError(text, self._judge) if super().is_error else text

    @property
    def content(self) -> list[JSONObject]:
        """The content blocks, each with its `type`."""
        content = super().content
        return _ContentOfError(content, self._judge) if super().is_error else content

    def _notice(self) -> None:
        vars(self).update(_is_noticed=True)

    def _judge(self, *, is_found: bool) -> None:
        """Notice the error if its text has what a test looked for; else warn of it."""
        if is_found:
            self._notice()
        elif not vars(self)["_is_noticed"]:
            warnings.warn(
                f"The call of {vars(self)['_tool']!r} failed, so its text is that of the error, and says nothing of a "
                f"result. Look at is_error, or at structured, before you look whether there is a text, or what it "
                f"lacks. The error is: {clip(super().text)}",
                UnnoticedError,
                stacklevel=4,
            )


class _TextOfError(str):
    """The text of an error, which tells whether something was looked for in vain."""

    __slots__ = ("_judge",)
    _judge: Callable[..., None] | None

    def __new__(cls, text: str, judge: Callable[..., None] | None = None) -> _TextOfError:
        made = super().__new__(cls, text)
        made._judge = judge
        return made

    def __bool__(self) -> bool:
        self._tell(is_found=False)
        return super().__len__() > 0

    def __len__(self) -> int:
        self._tell(is_found=False)
        return super().__len__()

    def __eq__(self, other: object) -> bool:
        is_same = super().__eq__(other) is True
        self._tell(is_found=is_same)
        return is_same

    def __ne__(self, other: object) -> bool:
        is_same = super().__eq__(other) is True
        self._tell(is_found=is_same)
        return not is_same

    __hash__ = str.__hash__

    def __contains__(self, part: Any) -> bool:
        is_found = super().__contains__(part)
        if part:
            self._tell(is_found=is_found)
        return is_found

    def startswith(self, part: Any, *place: Any) -> bool:
        is_found = super().startswith(part, *place)
        if part:
            self._tell(is_found=is_found)
        return is_found

    def endswith(self, part: Any, *place: Any) -> bool:
        is_found = super().endswith(part, *place)
        if part:
            self._tell(is_found=is_found)
        return is_found

    def find(self, part: str, *place: Any) -> int:
        index = super().find(part, *place)
        if part:
            self._tell(is_found=index >= 0)
        return index

    def count(self, part: str, *place: Any) -> int:
        number = super().count(part, *place)
        if part:
            self._tell(is_found=number > 0)
        return number

    def lower(self) -> _TextOfError:
        return _TextOfError(super().lower(), self._judge)

    def upper(self) -> _TextOfError:
        return _TextOfError(super().upper(), self._judge)

    def casefold(self) -> _TextOfError:
        return _TextOfError(super().casefold(), self._judge)

    def strip(self, chars: str | None = None) -> _TextOfError:
        return _TextOfError(super().strip(chars), self._judge)

    def _tell(self, *, is_found: bool) -> None:
        if self._judge is not None:
            self._judge(is_found=is_found)


class _ContentOfError(list[Any]):
    """The content of an error, which tells whether a test looks only how much there is."""

    def __init__(self, content: list[JSONObject], judge: Callable[..., None]) -> None:
        super().__init__(content)
        self._judge = judge

    def __bool__(self) -> bool:
        self._tell()
        return super().__len__() > 0

    def __len__(self) -> int:
        self._tell()
        return super().__len__()

    def _tell(self) -> None:
        self._judge(is_found=False)
