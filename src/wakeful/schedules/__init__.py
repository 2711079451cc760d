"""Layer 4. Schedules: named specs on objects, with a verdict for every occurrence."""
