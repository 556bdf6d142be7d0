"""Authenticators, one module per kind of credentials."""
