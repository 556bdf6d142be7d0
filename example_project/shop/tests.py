"""Tests of what the shop offers, with the test kit; run them with `manage.py test example_project`."""

from django.contrib.auth import get_user_model

from django_mcp.inprocess import UnknownResource
from django_mcp.test import MCPTestCase
from example_project.shop import sample
from example_project.shop.models import Order, Product


class ShopTests(MCPTestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        sample.load()

    def test_products_are_found(self) -> None:
        found = self.mcp.call("find_products", category="garden", max_price="30")

        self.assertEqual([product["sku"] for product in found.structured], ["hose"])

    def test_an_order_is_placed_for_the_logged_in_user(self) -> None:
        ann = get_user_model().objects.create_user("ann")
        self.mcp.force_login(ann)

        placed = self.mcp.call("place_order", lines=[{"sku": "mug", "quantity": 2}])

        self.assertEqual(placed.structured["customer"], "ann")
        self.assertEqual(Order.objects.get(number=placed.structured["number"]).customer, ann)

    def test_an_order_that_cannot_be_filled_leaves_nothing(self) -> None:
        lines = [{"sku": "mug", "quantity": 2}, {"sku": "hose", "quantity": 1}]
        stock = Product.objects.get(sku="mug").stock

        refused = self.mcp.call("place_order", lines=lines)

        self.assertTrue(refused.is_error)
        self.assertIn("Only 0 of hose left", refused.text)
        self.assertEqual(Product.objects.get(sku="mug").stock, stock)

    def test_a_missing_resource_cannot_be_read(self) -> None:
        with self.assertRaises(UnknownResource):
            self.mcp.read("product://unicorn/stock")

    def test_an_export_reports_progress(self) -> None:
        self.mcp.force_login(get_user_model().objects.get(username="sam"))

        exported = self.mcp.call("export_orders")

        self.assertEqual(exported.structured["rows"], len(sample.ORDERS))
        self.assertEqual(len(self.mcp.progress), 1 + len(sample.ORDERS))

    def test_a_stock_change_notifies_listeners(self) -> None:
        with self.mcp.listen("product://mug/stock") as changes:
            with self.captureOnCommitCallbacks(execute=True):
                self.mcp.call("place_order", lines=[{"sku": "mug", "quantity": 2}])

            self.assertEqual(changes.next()["params"]["uri"], "product://mug/stock")

    def test_responses_conform_to_the_protocol(self) -> None:
        self.mcp.assert_conforms()
