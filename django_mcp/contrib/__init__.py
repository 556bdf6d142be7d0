"""Optional parts, each an app of its own; none imports what is not installed."""
