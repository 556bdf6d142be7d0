"""The example shop with OAuth on, as the tests serve it beside them."""
