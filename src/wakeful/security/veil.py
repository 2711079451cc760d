"""Layer 5, pure. How is a number given out and taken back that says nothing of itself?

Events, rows of the ledger and parked timers are numbered for the whole deployment. A reader who is bound to a tenant would
see by the numbers how much happens to all the others, so it gets them in another form: a Feistel network of keyed hashes,
which has a way back. Cursors, which have such numbers in them, are sealed.
"""

import base64
import re
from hashlib import blake2b
from hmac import compare_digest

ROUNDS = 4
HALF = 1 << 32
SMALL_HALF = 1 << 26  # of a number that stays one which JSON carries exactly
TAG_BYTES = 12


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
            left, right = right, left ^ self._mix(turn, right)
        return f"{left:08x}{right:08x}"

    def show(self, text: str) -> int | None:
        """The number again; None for what can't be one. Of what somebody made up it is any number at all."""
        if not re.fullmatch(r"[0-9a-f]{16}", text):
            return None
        left, right = int(text[:8], 16), int(text[8:], 16)
        for turn in reversed(range(ROUNDS)):
            left, right = right ^ self._mix(turn, left), left
        return left * HALF + right

    def mask(self, number: int) -> int:
        """Another number, from 1 to 2**52, for one from 1 to 2**52."""
        left, right = divmod((number - 1) % SMALL_HALF**2, SMALL_HALF)
        for turn in range(ROUNDS):
            left, right = right, left ^ self._mix(turn, right) % SMALL_HALF
        return left * SMALL_HALF + right + 1

    def unmask(self, number: int) -> int:
        """The number again. Of what somebody made up it is any number at all."""
        left, right = divmod((number - 1) % SMALL_HALF**2, SMALL_HALF)
        for turn in reversed(range(ROUNDS)):
            left, right = right ^ self._mix(turn, left) % SMALL_HALF, left
        return left * SMALL_HALF + right + 1

    def seal(self, text: str) -> str:
        """The text as letters and digits that say nothing of it, the same each time."""
        data = text.encode()
        tag = self._tag(data)
        return base64.urlsafe_b64encode(tag + self._xor(tag, data)).decode().rstrip("=")

    def open(self, text: str) -> str | None:
        """The text that was sealed; None for what this veil did not seal."""
        try:
            given = base64.b64decode(f"{text}{'=' * (-len(text) % 4)}", altchars=b"-_", validate=True)
        except ValueError:
            return None
        tag, data = given[:TAG_BYTES], self._xor(given[:TAG_BYTES], given[TAG_BYTES:])
        return data.decode() if compare_digest(tag, self._tag(data)) else None

    def _tag(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=TAG_BYTES, key=self._key, person=b"wakeful tag").digest()

    def _xor(self, tag: bytes, data: bytes) -> bytes:
        """With a stream that the tag begins: twice is the data again."""
        size = 64
        stream = b"".join(
            blake2b(tag + block.to_bytes(4, "big"), digest_size=size, key=self._key, person=b"wakeful stream").digest()
            for block in range(-(-len(data) // size))
        )
        return bytes(one ^ other for one, other in zip(data, stream, strict=False))

    def _mix(self, turn: int, half: int) -> int:
        digest = blake2b(half.to_bytes(4, "big"), digest_size=4, key=self._key, salt=bytes([turn])).digest()
        return int.from_bytes(digest, "big")
