"""Schemas of the operations. They are in a module of their own, as pydantic reads their annotations."""

from datetime import date
from decimal import Decimal
from typing import Annotated, Any

from ninja import Field, FilterLookup, FilterSchema, ModelSchema, Schema
from pydantic import field_validator

from tests.circle.operations.models import Author, Volume


class AuthorOut(ModelSchema):
    class Meta:
        model = Author
        fields = "__all__"


class VolumeOut(ModelSchema):
    author: AuthorOut
    loud: str

    class Meta:
        model = Volume
        fields = "__all__"

    @staticmethod
    def resolve_loud(volume: Any) -> str:
        return str(volume.title).upper()


class VolumeShort(Schema):
    id: int
    title: str
    kind: str | None = None
    price: Decimal | None = None


class AuthorWithVolumes(Schema):
    name: str
    volumes: list[VolumeShort]


class VolumeIn(Schema):
    title: str = Field(max_length=60)
    kind: Volume.Kind = Volume.Kind.NOVEL
    author_id: int
    price: Decimal = Decimal(1)
    published: date | None = None


class VolumeFilters(FilterSchema):
    title: Annotated[str | None, FilterLookup("title__icontains")] = None
    price: Annotated[Decimal | None, FilterLookup("price__lte")] = None
    kind: Annotated[list[Volume.Kind] | None, FilterLookup("kind__in")] = None


class Message(Schema):
    message: str


class Review(Schema):
    stars: int = Field(ge=1, le=5)
    text: str = ""

    @field_validator("text")
    @classmethod
    def check_text(cls, value: str) -> str:
        if value == "bad":
            raise ValueError("rather not")
        return value


class Day(Schema):
    year: int
    month: int = Field(ge=1, le=12)
