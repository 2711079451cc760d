-- What nodes of a cluster have to know about each other.
ALTER TABLE nodes ADD COLUMN cluster TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE nodes ADD COLUMN is_draining INTEGER NOT NULL DEFAULT 0;
