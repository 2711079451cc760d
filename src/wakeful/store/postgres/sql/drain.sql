UPDATE wakeful.nodes SET is_draining = $is_draining::boolean WHERE node = $node::text RETURNING node
