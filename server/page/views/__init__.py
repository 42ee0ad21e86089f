"""Views: functions that make each `Page` from the broker, on Trio's thread in time slices.

One file for each page or a few related ones.
"""
