"""The benchmark site and its runner."""
