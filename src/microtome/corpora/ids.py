"""Detection of repeated ids among millions, from 64-bit digests."""

from __future__ import annotations

from array import array
from hashlib import blake2b


class SeenIds:
    """
    The set of ids seen so far, stored as 64-bit digests in some 16 to 32 bytes each.

    Among ten million ids the chance that any two share a digest is about one in four hundred thousand.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * 1024))
        self._count = 0

    def add(self, name: str) -> bool:
        """Add an id; return True if it was already present."""
        # 0 marks a free slot.
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1
        if not self._place(self._slots, key):
            return True
        self._count += 1
        if 2 * self._count > len(self._slots):
            wider = array("Q", bytes(16 * len(self._slots)))
            for stored_key in self._slots:
                if stored_key:
                    self._place(wider, stored_key)
            self._slots = wider
        return False

    @staticmethod
    def _place(slots: array[int], key: int) -> bool:
        last = len(slots) - 1  # the length is a power of 2
        slot = key & last
        while slots[slot]:
            if slots[slot] == key:
                return False
            slot = (slot + 1) & last
        slots[slot] = key
        return True
