from django.apps import AppConfig


class BackofficeConfig(AppConfig):
    name = "example_project.backoffice"
