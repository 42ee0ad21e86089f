"""Committed offsets, transactional ones too."""
