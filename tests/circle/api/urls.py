"""The URLs of the API."""

from django.urls import include, path, re_path
from rest_framework.routers import DefaultRouter
from rest_framework_nested.routers import NestedSimpleRouter

from tests.circle.api import views

router = DefaultRouter(trailing_slash=False)
router.register("companies", views.CompanyViewSet)
router.register("projects", views.ProjectViewSet, basename="project")
of_project = NestedSimpleRouter(router, "projects", lookup="project")
of_project.register("tasks", views.TaskViewSet, basename="project-tasks")
of_project.register("open", views.OpenTaskViewSet, basename="project-open")

urlpatterns = [
    path("", include(router.urls)),
    path("", include(of_project.urls)),
    path("labels/", views.LabelViewSet.as_view({"get": "listing", "post": "add"}), name="labels"),
    path("labels/all/", views.LabelList.as_view(), name="label-list"),
    path("labels/<slug:label>/", views.OneLabel.as_view(), name="one-label"),
    path("me/", views.Me.as_view(), name="me"),
    re_path(r"^(?P<version>v[12])/numbers/(?P<year>[0-9]{4})/$", views.Numbers.as_view(), name="n"),
    path("<slug:version>/numbers/<int:year>/<int:month>/", views.Numbers.as_view(), name="m"),
    path("staff/", views.staff, name="staff"),
    path("auth/", include("dj_rest_auth.urls")),
    path("auth/registration/", include("dj_rest_auth.registration.urls")),
]
