"""Pages of tools without Django: what is on the wire, and the extension."""
