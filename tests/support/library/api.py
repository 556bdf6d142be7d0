"""The samples as an API of Django Ninja, which reads the annotations of functions as they are."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import ModelSchema, NinjaAPI, Query, Schema
from ninja.pagination import paginate
from pydantic import AfterValidator, Field, IPvAnyAddress

from django_mcp.execution.moments import read_moment
from tests.support.library.models import Sample


# PostgreSQL stores a year beyond 9999, which Python cannot read again.
def _in_range(moment: datetime) -> datetime:
    try:
        return read_moment(moment)
    except ValidationError as error:
        raise ValueError("is out of range") from error


Moment = Annotated[datetime, AfterValidator(_in_range)]


class SampleIn(Schema):
    code: str = Field(max_length=40)
    label: str = Field("", max_length=600)
    size: int = 0
    ratio: float = 0
    price: Decimal = Field(Decimal(0), max_digits=8, decimal_places=2)
    day: date | None = None
    moment: Moment | None = None
    clock: time | None = None
    took: timedelta | None = None
    address: IPvAnyAddress | None = None
    uid: UUID | None = None
    data: dict[str, Any] | list[Any] = {}
    owner_id: int | None = None


class SampleOut(ModelSchema):
    class Meta:
        model = Sample
        fields = ("id", "code", "label", "size", "weight", "note")


class Asked(Schema):
    size: int | None = None
    price: Decimal | None = None
    took: timedelta | None = None
    moment: datetime | None = None
    day: date | None = None
    uid: UUID | None = None
    address: str | None = None
    owner_id: int | None = None


def make_api() -> NinjaAPI:
    """Return an API of the samples that passes on what it gets, as short APIs do."""
    api = NinjaAPI(title="Samples", urls_namespace="samples")

    @api.get("/samples", response=list[SampleOut])
    @paginate
    def list_samples(request: HttpRequest, asked: Asked = Query(...)) -> Any:  # noqa: B008
        given = {name: value for name, value in asked.dict().items() if value is not None}
        return Sample.objects.filter(**given)

    @api.get("/samples/{int:key}", response=SampleOut)
    def get_sample(request: HttpRequest, key: int) -> Any:
        return get_object_or_404(Sample, pk=key)

    @api.get("/coded/{code}", response=SampleOut)
    def get_coded_sample(request: HttpRequest, code: str) -> Any:
        return get_object_or_404(Sample, code=code)

    @api.get("/weighing/{weight}", response=list[SampleOut])
    def find_by_weight(request: HttpRequest, weight: int, level: int = 0) -> Any:
        return Sample.objects.filter(weight=weight) | Sample.objects.filter(level__in=[level])

    @api.post("/samples", response=SampleOut)
    def create_sample(request: HttpRequest, sample: SampleIn) -> Any:
        given = sample.dict()
        given["address"] = None if sample.address is None else str(sample.address)
        return Sample.objects.create(**given)

    @api.put("/samples/{int:key}", response=SampleOut)
    def put_sample(request: HttpRequest, key: int, sample: SampleIn) -> Any:
        found = get_object_or_404(Sample, pk=key)
        for name, value in sample.dict().items():
            setattr(found, name, value)
        found.address = None if sample.address is None else str(sample.address)
        found.save()
        return found

    return api
