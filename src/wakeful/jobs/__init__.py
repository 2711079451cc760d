"""Layer 4. One call, once, at a time, from anywhere."""
