"""Layer 4. Methods that block or compute: in a thread, in a process."""
