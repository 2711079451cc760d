-- What nodes of a cluster have to know about each other.
ALTER TABLE wakeful.nodes
    ADD COLUMN cluster     text    NOT NULL DEFAULT '',
    ADD COLUMN version     integer NOT NULL DEFAULT 1,
    ADD COLUMN is_draining boolean NOT NULL DEFAULT false,
    ADD COLUMN has_session boolean NOT NULL DEFAULT false;
