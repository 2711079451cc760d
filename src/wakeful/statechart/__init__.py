"""Layer 1, pure. What does a statechart do next, and what does it ask of the world?"""
