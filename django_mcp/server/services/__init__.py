"""What the server needs from its surroundings, and the look-ups that use it."""
