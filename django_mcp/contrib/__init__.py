"""Integrations that need another package; a site names those that it uses."""
