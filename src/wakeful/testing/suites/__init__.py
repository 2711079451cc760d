"""Layer 5. The store conformance suite by question; `wakeful.testing.store_suite` is the whole."""
