"""HTTP+SSE, the transport of 2024-11-05: a stream to the client, and a second URL to post to."""
