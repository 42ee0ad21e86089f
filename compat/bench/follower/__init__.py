"""How soon a follower of a topic as a table sees a write."""
