"""Responses that are always failures, whatever was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

INTERNAL_ERROR = -32603
FAULT_TEXT = "Internal error (reference"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One failure, and how to reproduce it: by its seed and round."""

    why: str
    seed: int
    round: int
    sent: str

    def __str__(self) -> str:
        return f"FAILED: {self.why}\n  again: --seed {self.seed} --round {self.round}\n  sent: {self.sent}"


def find_faults(payload: Any) -> Iterator[str]:
    """Yield the faults of a message, or of a batch, that the server sent."""
    for each in payload if isinstance(payload, list) else [payload]:
        if not isinstance(each, dict) or each.get("jsonrpc") != "2.0":
            yield f"no JSON-RPC message: {str(each)[:300]}"
            continue
        if ("method" in each) + ("result" in each) + ("error" in each) != 1:
            yield f"not one of request, result and error: {str(each)[:300]}"
        error = each.get("error")
        if error is not None and (
            type(error.get("code")) is not int or error["code"] == INTERNAL_ERROR
        ):
            yield f"an internal error: {error}"
        if FAULT_TEXT in json.dumps(each.get("result", "")):
            yield f"a handler failed: {str(each)[:300]}"
