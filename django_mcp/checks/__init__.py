"""System checks. docs/reference/checks.md lists them."""
