from django.contrib import admin
from django.http import HttpResponse
from django.urls import include, path

urlpatterns = [
    path("", include("django_mcp.urls")),
    path("admin/", admin.site.urls),
    # Asked for by browsers of their own accord.
    path("favicon.ico", lambda request: HttpResponse(status=204)),
]
