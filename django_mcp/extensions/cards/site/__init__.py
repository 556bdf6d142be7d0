"""The documents of servers, and their URLs."""
