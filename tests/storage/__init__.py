"""A package of its own: otherwise type checkers would take the floor `storage` next to `tests` for its parent."""
