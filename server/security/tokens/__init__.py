"""Delegation tokens: secrets of limited life that log in in their owner's stead (KIP-48, KIP-373).

`token` (one of them), `tokens` (all of them, and what they log in with).
"""
