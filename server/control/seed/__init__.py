"""Seeds: the initial content of a broker, in YAML or JSON.

Read in this order: `fields` (texts and mappings as fields with their positions), `seed` (the parsed seed, and export of
one), `values` (keys and values), `seeding` (creation of everything, or nothing).
"""
