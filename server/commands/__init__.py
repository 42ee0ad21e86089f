"""Programs: `ottla serve` and its siblings."""
