"""All kinds of clients at once for an hour, at a fixed pace: are there errors, and does the broker grow?"""
