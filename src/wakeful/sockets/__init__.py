"""Layer 4. WebSockets of objects, which outlive their sleep."""
