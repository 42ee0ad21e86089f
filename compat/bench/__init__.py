"""Ottla and its peers side by side: both sides measured in one run, by one client, on one machine."""
