"""Stores in the memory of one process: sessions, answers, recorded events, tasks and the bus."""
