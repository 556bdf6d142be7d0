"""The test site's URLs: the example shop's."""

from example_project.urls import urlpatterns

__all__ = ["urlpatterns"]
