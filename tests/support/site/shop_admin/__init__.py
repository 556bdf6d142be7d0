"""The shop with optional OAuth, and a tool that keeps its callers waiting."""
