from django.urls import include, path

from django_mcp import default_server
from tests.fuzz.entries import register

register(default_server)

urlpatterns = [path("", include("django_mcp.urls"))]
