"""The doctor: tests a running endpoint as a client, and reports problems."""
