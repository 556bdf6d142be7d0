"""The shop with OAuth on, where nobody has to be known, and a tool that keeps its callers waiting."""
