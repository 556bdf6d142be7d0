"""Models in a module of their own, for the tests of recursive unions."""

from __future__ import annotations

from pydantic import BaseModel


class Leaf(BaseModel):
    inner: Tree | Leaf | None = None


class Tree(BaseModel):
    inner: Tree | Leaf | None = None


Leaf.model_rebuild()
