from django.urls import path

from tests.auth.guarded.servers import server

urlpatterns = [path("", server.urls)]
