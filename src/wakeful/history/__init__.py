"""Layer 4. Points in time: an object as it was."""
