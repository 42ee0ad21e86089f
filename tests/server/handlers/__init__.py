"""Its own package: without this file type checkers would take the floor's `server/handlers` for its parent."""
