"""What exists only for the revisions with a handshake: sessions, and what belongs to one.

`core` is without Django, and `site` stores sessions on a site.
"""
