SELECT node, address, joined_at, lease_until, about FROM wakeful.nodes ORDER BY node
