"""Layer 5. Who may do what from outside, and what is remembered of it?"""
