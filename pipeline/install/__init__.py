"""Compacted segments take the place of what they were made from, in a stopped store or in a broker that serves."""
