"""Requests from the server to the client, and the rounds of a call that asks."""
