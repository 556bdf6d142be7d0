"""Streamable HTTP, as a Channels consumer and as a plain Django view.

Both check a request's headers with the guard, read its body up to a limit, call the server, and
send the response as JSON or as server-sent events. Neither contains protocol rules.
"""
