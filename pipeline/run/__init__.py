"""How a command becomes a Spark job: sessions, plans that are gone on with, progress and results."""
