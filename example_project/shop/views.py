from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.html import format_html

from example_project.shop.models import Product


def product_page(request: HttpRequest, sku: str) -> HttpResponse:
    product = get_object_or_404(Product, sku=sku)
    return HttpResponse(
        format_html(
            "<!doctype html><title>{0}</title><h1>{0}</h1><p>{1}</p><p>€ {2}, {3} in stock</p>",
            product.name,
            product.description,
            product.price,
            product.stock,
        )
    )
