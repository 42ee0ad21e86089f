"""Logs on disk, written without a broker and read without Ottla's code."""
