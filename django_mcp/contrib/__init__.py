"""Optional apps, which import only what is installed."""
