"""The one table that `db_get` reads."""

from __future__ import annotations

from django.db import models


class Item(models.Model):
    name = models.CharField(max_length=100)
    price = models.IntegerField(default=0)

    objects: models.Manager[Item] = models.Manager()

    def __str__(self) -> str:
        return self.name
