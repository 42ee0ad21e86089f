"""A package of its own: otherwise type checkers would take the floor's `server/handlers` for its parent."""
