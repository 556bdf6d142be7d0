from django.contrib import admin

from example_project.shop.models import Order, OrderLine, Product


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ("sku", "name", "category", "price", "stock")
    list_filter = ("category",)
    search_fields = ("sku", "name")


class OrderLineInline(admin.TabularInline):
    model = OrderLine
    autocomplete_fields = ("product",)
    extra = 0


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ("number", "customer", "status", "placed_at")
    list_filter = ("status",)
    list_select_related = ("customer",)
    search_fields = ("number", "customer__username")
    autocomplete_fields = ("customer",)
    inlines = (OrderLineInline,)
