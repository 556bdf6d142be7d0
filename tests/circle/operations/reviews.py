"""A router inside of another one, whose path has a variable: forms and files."""

from typing import Any

from ninja import File, Form, Path, Router, UploadedFile

from tests.circle.operations.schemas import Review

reviews = Router(tags=["reviews"])


@reviews.get("/")
def list_all(request: Any, volume_id: Path[int]) -> Any:
    return [volume_id]


@reviews.post("/", operation_id="review", response=Review)
def add(request: Any, volume_id: Path[int], data: Form[Review]) -> Any:
    return data


@reviews.post("/with-picture")
def add_with_picture(
    request: Any, volume_id: Path[int], data: Review, picture: File[UploadedFile | None] = None
) -> Any:
    return data.dict()


@reviews.post("/picture")
def add_picture(request: Any, volume_id: Path[int], picture: File[UploadedFile]) -> Any:
    return picture.name
