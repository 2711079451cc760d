-- How long a node is believed to live after it was last heard of: the same on all nodes, or they refuse each other.
ALTER TABLE wakeful.nodes ADD COLUMN lease_ms integer NOT NULL DEFAULT 5000;
