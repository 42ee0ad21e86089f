"""The broker itself: wires the rooms below, starts, stops, and looks after the house."""
