"""Integrations with other packages and services; a site names those that it uses."""
