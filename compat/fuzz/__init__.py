"""Frames of real clients, damaged in every way, sent to a running broker."""
