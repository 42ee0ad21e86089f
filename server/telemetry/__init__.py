"""Metrics that clients push (KIP-714): which clients send which metrics, and their receivers.

`subscriptions` (the metrics that clients must send), `instances` (pushing clients, and when they may push), `receivers` (where
reports go).
"""
