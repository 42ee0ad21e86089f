"""Its own package: without this file type checkers would take the floor `storage` beside `tests` for its parent."""
