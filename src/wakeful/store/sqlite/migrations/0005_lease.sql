-- How long a node is believed to live after it was last heard of: the same on all nodes, or they refuse each other.
ALTER TABLE nodes ADD COLUMN lease_ms INTEGER NOT NULL DEFAULT 5000;
