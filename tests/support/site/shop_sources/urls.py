from django.urls import path

from example_project import urls
from tests.support.site.shop_sources.mcp import server

urlpatterns = [*urls.urlpatterns, path("sources/", server.urls)]
