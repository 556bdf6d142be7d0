"""What one process keeps in memory: sessions, answers, recorded events, tasks and the bus."""
