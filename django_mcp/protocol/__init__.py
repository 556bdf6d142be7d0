"""The wire: messages, headers, shapes and the revisions. Pure: values in, values out.

Nothing here does I/O, reads a clock, logs, or knows Django. What differs between protocol
revisions stands in `revisions/` and nowhere else.
"""
