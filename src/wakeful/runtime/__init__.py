"""Layer 3. The node: activation, turns, timer queue, hibernation, retries. Imports no feature."""
