"""Layer 4. Queues: no more at once, or in a stretch of time, than is good for what they call."""
