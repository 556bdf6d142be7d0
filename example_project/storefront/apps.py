from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StorefrontConfig(AppConfig):
    name = "example_project.storefront"
    verbose_name = _("Storefront")
