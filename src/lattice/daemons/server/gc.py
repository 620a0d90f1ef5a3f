"""Garbage collection of a server: loaded data is never examined again, and the rest rarely.

Most objects of a server are not in cycles and are freed by reference counting. With ten thousand connected nodes a full
collection blocks the event loop for half a second; the default thresholds would start one whenever the number of objects grew by
a quarter.
"""

import gc

_YOUNG, _MIDDLE, _OLD = 20_000, 20, 200


def keep_what_is_loaded() -> None:
    """Call it when everything is loaded and before the first request is served."""
    # Without a collection first: it would examine everything that is loaded, to find half a megabyte that imports left behind.
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
