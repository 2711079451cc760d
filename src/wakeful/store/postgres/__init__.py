"""Layer 2. The store for many processes on many machines: PostgreSQL 14 and later, or what speaks like it."""

from wakeful.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
