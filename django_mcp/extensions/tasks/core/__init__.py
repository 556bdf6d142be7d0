"""Tasks without Django: their states, their runs, and the methods of the protocol."""
