"""Layer 5. For whoever receives webhooks of a program: is this one genuine?"""

from wakeful.notices.signatures import new_secret, verify

__all__ = ["new_secret", "verify"]
