"""Numbers for histories: which log an entry belongs to, when there may have been several of one cluster.

An epoch is the time at which its log was begun, in milliseconds, and always higher than the one it continues. So a server that has
seen a later one can refuse an earlier one, also when the same backup was restored twice.
"""

import time


def new_epoch(former: int = 0) -> int:
    return max(former + 1, time.time_ns() // 1_000_000)
