"""Layer 5. Durable objects from another process, over HTTP."""

from wakeful.client.blocking import SyncClient as SyncClient
from wakeful.client.client import Client as Client
