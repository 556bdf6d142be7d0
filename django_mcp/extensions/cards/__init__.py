"""Server cards: a document that says where a server is, before a client connects.

`site` makes the documents and serves them, and `checks` has the system checks.
"""
