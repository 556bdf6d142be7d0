"""The registry: entries made from functions, and the object that holds them."""
