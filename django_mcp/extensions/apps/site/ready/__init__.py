"""Ready-made apps: what their templates show of a result."""
