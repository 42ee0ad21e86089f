"""Floor 3: Trio. Sockets, tasks, time, policy."""
