"""Layer 5. Durable objects from another process, over HTTP."""

from wakeful.client.client import Client as Client
from wakeful.client.client import SyncClient as SyncClient
