"""Layer 5. The bindings of a Worker that are objects underneath: KV, D1, queues, R2; and other Workers and files."""
