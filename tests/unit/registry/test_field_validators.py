"""Validators of a framework in `Annotated`, which the registry knows by its port only."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from django_mcp.protocol.json import JSONObject
from django_mcp.registry.problems import ArgumentErrors, RegistrationError
from django_mcp.server.memory import PlainConverter
from tests.support.registry import Ctx, Site, bind


@dataclass
class AtMost:
    """A validator of a framework that is not Django."""

    limit: int

    def __call__(self, value: int) -> None:
        if value > self.limit:
            raise ValueError(f"more than {self.limit}")


class OwnValidators:
    advice = ", or use AtMost(...)"

    def is_validator(self, value: Any) -> bool:
        return isinstance(value, AtMost)

    def is_validator_class(self, cls: type) -> bool:
        return issubclass(cls, AtMost)

    def find_fault(self, validator: Any) -> str | None:
        return "nothing can be less" if validator.limit < 0 else None

    def make_check(self, validator: Any) -> Callable[[Any], None]:
        check: Callable[[Any], None] = validator
        return check

    def describe(self, validator: Any, schema: JSONObject) -> None:
        schema["maximum"] = validator.limit


class OwnConverter(PlainConverter):
    validators = OwnValidators()


def register(annotation: Any, converter: PlainConverter) -> Any:
    site = Site(converter)

    def tool(value: Any) -> None:
        """Take a value."""

    tool.__annotations__["value"] = annotation
    site.tool(tool)
    return site.registry.tools["tool"]


def test_the_validators_of_the_framework_run_on_arguments_and_are_described():
    entry = register(Annotated[int, AtMost(3)], OwnConverter())

    assert entry.input_schema["properties"]["value"] == {"type": "integer", "maximum": 3}
    assert bind(entry.handler, {"value": 3}, Ctx()) == {"value": 3}
    with pytest.raises(ArgumentErrors, match="more than 3"):
        bind(entry.handler, {"value": 4}, Ctx())


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        (AtMost, r"`AtMost` in Annotated is a class"),
        (AtMost(-1), "nothing can be less"),
        (print, r"raises ValueError, or use AtMost"),
    ],
)
def test_the_faults_of_the_framework_are_told(metadata: Any, told: str):
    with pytest.raises(RegistrationError, match=told):
        register(Annotated[int, metadata], OwnConverter())


def test_without_the_framework_its_validators_are_functions_that_nobody_calls():
    with pytest.raises(RegistrationError, match="`AtMost` in Annotated is never called"):
        register(Annotated[int, AtMost(3)], PlainConverter())
