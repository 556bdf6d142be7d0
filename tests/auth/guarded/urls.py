from django.urls import path

from tests.auth.guarded.servers import make_server

urlpatterns = [path("", make_server().urls)]
