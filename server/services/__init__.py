"""What a request may ask for: the rooms below, together."""
