"""Layer 2. The store as a bucket: objects of S3, Azure or Google (or a folder) are durable, a local SQLite file is quick."""

from wakeful.store.bucket.store import BucketStore

__all__ = ["BucketStore"]
