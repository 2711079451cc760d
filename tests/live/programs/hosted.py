"""A Worker of Cloudflare's, from the folder that the environment names, as one node of a cluster."""

import os

from wakeful.compat.workers import load

app = load(os.environ["WAKEFUL_HOSTED"]).app
