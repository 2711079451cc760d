"""Layer 1. Pure decisions: no I/O, no async, no clock, no randomness. Values in, values out."""
