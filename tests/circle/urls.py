"""The admin of the site, where the walk compares what tools do, and the pages that objects lead to."""

from django.apps import apps
from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls)]
if apps.is_installed("wiki"):
    urlpatterns += [
        path("notifications/", include("django_nyt.urls")),
        path("wiki/", include("wiki.urls")),
    ]
if apps.is_installed("wagtail"):
    urlpatterns += [path("cms/", include("wagtail.admin.urls")), path("", include("wagtail.urls"))]
if apps.is_installed("tests.circle.api"):
    urlpatterns += [path("api/", include("tests.circle.api.urls"))]
if apps.is_installed("tests.circle.operations"):
    urlpatterns += [path("apis/", include("tests.circle.operations.urls"))]
