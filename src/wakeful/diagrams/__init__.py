"""Layer 5. Pictures of statecharts, as text in SVG."""
