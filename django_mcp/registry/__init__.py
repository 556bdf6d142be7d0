"""What a server offers: entries made from functions, and the registry that holds them.

Nothing here knows Django, channels or a transport; pydantic and jsonschema are imported when the
first entry needs them.
"""
