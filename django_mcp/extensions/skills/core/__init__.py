"""Skills without Django: their folders, their front matter, what is on the wire, and the extension."""
