"""Open streams of the process, and the messages that link it to the other processes."""
