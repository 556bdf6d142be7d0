"""How a handler meets Django: its thread, its transaction, its results and its exceptions.

Each module implements one interface of `django_mcp.server.services.ports`.
"""
