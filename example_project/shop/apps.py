from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ShopConfig(AppConfig):
    name = "example_project.shop"
    verbose_name = _("Shop")

    def ready(self) -> None:
        from example_project.shop import live  # noqa: F401 - it connects its receivers
