"""Execution of handlers on Django: their threads, connections, transactions and results."""
