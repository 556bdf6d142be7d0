"""The wire protocol: messages, headers, shapes and revisions.

It does no I/O, reads no clock, does not log, and does not import Django. All differences between
protocol revisions are in `revisions/`, but for the schemas of strict mode in `schemas/`.
"""
