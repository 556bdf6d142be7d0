"""The doctor: plays a client against a running endpoint, and says what stands in its way."""
