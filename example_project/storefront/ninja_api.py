"""The shop's API made with Django Ninja, at /ninja/."""

from decimal import Decimal

from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, NinjaAPI, Router, Schema
from ninja.security import SessionAuth

from example_project.shop.models import Category, Order, Product

products, orders = Router(tags=["products"]), Router(tags=["orders"], auth=SessionAuth())


class ProductOut(Schema):
    sku: str
    name: str
    price: Decimal
    stock: int


class OrderOut(Schema):
    number: str
    status: str
    note: str
    total: Decimal


class NoteIn(Schema):
    note: str


class BasketLine(Schema):
    sku: str
    quantity: int = Field(ge=1, le=1000)


class BasketIn(Schema):
    lines: list[BasketLine]


class BasketOut(Schema):
    total: Decimal = Field(description="In euros, without shipping.")
    missing: list[str] = Field(description="The SKUs of which there is less in stock.")


@products.get("", response=list[ProductOut])
def list_products(request: HttpRequest, category: Category | None = None) -> QuerySet[Product]:
    """List what the shop sells."""
    found = Product.objects.all()
    return found if category is None else found.filter(category=category)


@products.post("/basket", response=BasketOut)
def price_basket(request: HttpRequest, data: BasketIn) -> BasketOut:
    """Tell what products cost together today, and which are out of stock. Nothing is ordered."""
    total, missing = Decimal("0.00"), []
    for line in data.lines:
        product = get_object_or_404(Product, sku=line.sku)
        total += line.quantity * product.price
        if product.stock < line.quantity:
            missing.append(product.sku)
    return BasketOut(total=total, missing=missing)


@orders.get("/{number}", response=OrderOut)
def get_order(request: HttpRequest, number: str) -> Order:
    """Get one of your orders."""
    return get_object_or_404(Order.objects.visible_to(request.user), number=number)


@orders.put("/{number}/note", response=OrderOut)
def set_note(request: HttpRequest, number: str, data: NoteIn) -> Order:
    """Replace the note of one of your orders."""
    order = get_object_or_404(Order.objects.changeable_by(request.user), number=number)
    order.note = data.note
    order.full_clean()
    order.save(update_fields=["note"])
    return order


api = NinjaAPI(title="The example shop")
api.add_router("/products", products)
api.add_router("/orders", orders)
