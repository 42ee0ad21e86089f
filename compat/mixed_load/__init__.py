"""An hour of everything at once, paced: is there an error, and does the broker grow?"""
