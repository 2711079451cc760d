"""Layer 4. A database of its own for every object, kept as pages among its rows."""
