-- Of which spread the store is a server, if of any.
SELECT spread FROM wakeful.spread
