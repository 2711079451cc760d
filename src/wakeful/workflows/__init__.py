"""Layer 4. Objects whose behaviour is one long function of many steps."""
