"""What only the revisions with a handshake need, without Django.

Requests to the client, resumable streams, and the stores of sessions in memory.
"""
