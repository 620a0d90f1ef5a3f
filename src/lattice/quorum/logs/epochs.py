"""Epochs: which log an entry belongs to, since a cluster may have had several.

An epoch is the time at which its log was created, in milliseconds, and always higher than the one it continues. A server that has
seen a later epoch can therefore refuse an earlier one, even if the same backup was restored twice.
"""

import time


def new_epoch(former: int = 0) -> int:
    return max(former + 1, time.time_ns() // 1_000_000)
