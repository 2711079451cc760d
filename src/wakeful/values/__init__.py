"""Layer 0. The nouns everything else is written in: ids, timers, runs, commits, errors, clock, codec."""
