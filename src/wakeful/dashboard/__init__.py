"""Layer 5. What does a person see who keeps an eye on a deployment? Pages rendered here, live by a stream of events."""
