from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from django_mcp import elicitation_page
from example_project.shop.forms import VoucherForm
from example_project.shop.models import Product


def product_list(request: HttpRequest) -> HttpResponse:
    links = format_html_join(
        "",
        '<li><a href="{}">{}</a>',
        ((reverse("product", args=[each.sku]), each.name) for each in Product.objects.all()),
    )
    return HttpResponse(
        format_html("<!doctype html><title>Shop</title><h1>Shop</h1><ul>{}</ul>", links)
    )


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


@elicitation_page
def voucher_page(request: Any, number: str) -> HttpResponse:
    """Take a voucher's code from whoever `redeem_voucher` was called for, and nobody else."""
    form = VoucherForm(request.POST or None)
    if form.is_valid():
        finished: HttpResponse = request.elicitation.complete({"euros": form.cleaned_data["code"]})
        return finished
    return render(request, "shop/voucher.html", {"form": form, "number": number})
