"""Layer 4. Objects whose behaviour is a statechart."""
