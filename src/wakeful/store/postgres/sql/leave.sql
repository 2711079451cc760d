DELETE FROM wakeful.nodes WHERE node = $node::text
