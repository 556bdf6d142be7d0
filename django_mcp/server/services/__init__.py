"""The ports of a server, and checks and look-ups that use them."""
