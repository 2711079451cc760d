"""Layer 5. The server: API, dashboard, metrics and sockets as one, for this process or for one of yours."""

from wakeful.server.embedded_server import Served as Served
from wakeful.server.embedded_server import serving as serving
from wakeful.server.site import Site as Site
