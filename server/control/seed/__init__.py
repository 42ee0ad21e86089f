"""Seeds: what a broker has before its first client comes, written down in YAML or JSON.

Read in this order: `fields` (texts and mappings as fields that know their place), `seed` (what a seed says, and one of what there is), `values`
(keys and values), `planting` (all of it, or nothing).
"""
