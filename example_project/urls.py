from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.urls import include, path

from example_project.backoffice.mcp import staff_server
from example_project.shop.views import product_list, product_page, voucher_page
from example_project.storefront.mcp import storefront
from example_project.storefront.ninja_api import api
from example_project.storefront.rest import router

urlpatterns = [
    path("", include("django_mcp.urls")),  # /mcp
    path("staff/", staff_server.urls),  # /staff/mcp
    path("", product_list),
    path("storefront/", storefront.urls),  # /storefront/mcp
    path("api/", include(router.urls)),
    path("ninja/", api.urls),
    path("products/<slug:sku>/", product_page, name="product"),
    path("orders/<slug:number>/voucher/", voucher_page, name="voucher"),
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(template_name="admin/login.html")),
]
