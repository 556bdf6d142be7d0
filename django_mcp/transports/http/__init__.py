"""Streamable HTTP, as a Channels consumer and as a plain Django view."""
