"""Its own package: without this file type checkers would take the floor `server` beside `tests` for its parent."""
