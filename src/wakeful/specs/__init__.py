"""Layer 1, pure. When: specs of every kind, how they are written, and what they mean in words."""
