"""What one process keeps in memory: sessions, answers, recorded events and tasks."""
