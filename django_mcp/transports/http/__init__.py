"""Streamable HTTP, twice over the same code: a Channels consumer and a plain Django view.

Both hold no protocol rule. They let the guard judge a request's headers, read its body within
bounds, make one call to the server, and send what comes back, as JSON or as events.
"""
