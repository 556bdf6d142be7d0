"""The registry: entries made from functions, and the object that holds them.

It does not depend on Django, Channels or a transport. pydantic and jsonschema are imported when
the first entry needs them.

What cannot be registered as its author wrote it is a `RegistrationError`, whose text names the function
and the remedy.
"""
