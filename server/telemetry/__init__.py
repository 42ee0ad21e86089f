"""Metrics that clients push (KIP-714): whom to ask for which, and who gets them.

`subscriptions` (what is wanted of whom), `instances` (clients that push, and when they may), `receivers` (who gets it).
"""
