"""Delivery of changes and results: who receives a notification, and on which stream."""
