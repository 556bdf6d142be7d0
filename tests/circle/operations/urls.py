"""The URLs of the APIs."""

from django.urls import path

from tests.circle.operations.controllers import api
from tests.circle.operations.plain import first, second

urlpatterns = [path("v1/", first.urls), path("v2/", second.urls), path("controllers/", api.urls)]
