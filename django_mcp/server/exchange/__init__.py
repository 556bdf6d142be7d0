"""One exchange: the message, its connection, and the rules that hold for it."""
