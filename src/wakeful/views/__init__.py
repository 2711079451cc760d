"""Layer 5. What do the edges show of a deployment? Rows in the terms of JSON, read from the stores, waking nothing."""
