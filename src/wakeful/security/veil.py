"""Layer 5, pure. How is a number given out and taken back that says nothing of itself?

Events are numbered for the whole deployment. A reader who is bound to a tenant would see by the numbers how much
happens to all the others, so it gets them in another form: a Feistel network of keyed hashes, which has a way back.
"""

import re
from hashlib import blake2b

ROUNDS = 4
HALF = 1 << 32


class Veil:
    """For numbers below 2**64, under a key that nobody else has.

    >>> veil = Veil(b"only for this line")
    >>> veil.hide(7)
    'fbe0e782aaaf2268'
    >>> veil.show(veil.hide(7))
    7
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def hide(self, number: int) -> str:
        left, right = divmod(number, HALF)
        for turn in range(ROUNDS):
            left, right = right, left ^ self._mixed(turn, right)
        return f"{left:08x}{right:08x}"

    def show(self, text: str) -> int | None:
        """The number again; None for what can't be one. Of what somebody made up it is any number at all."""
        if not re.fullmatch(r"[0-9a-f]{16}", text):
            return None
        left, right = int(text[:8], 16), int(text[8:], 16)
        for turn in reversed(range(ROUNDS)):
            left, right = right ^ self._mixed(turn, left), left
        return left * HALF + right

    def _mixed(self, turn: int, half: int) -> int:
        digest = blake2b(half.to_bytes(4, "big"), digest_size=4, key=self._key, salt=bytes([turn])).digest()
        return int.from_bytes(digest, "big")
