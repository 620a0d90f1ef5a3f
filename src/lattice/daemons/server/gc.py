"""How the servers' garbage collection behaves: what was loaded is never looked at again, and the rest seldom.

Most of what a server keeps has no cycles and is freed by its counts. With ten thousand nodes connected a whole collection takes
half a second on the event loop; the usual thresholds would start one whenever the number of objects has grown by a quarter.
"""

import gc

_YOUNG, _MIDDLE, _OLD = 20_000, 20, 200


def keep_what_is_loaded() -> None:
    """To be called when all is loaded and before anybody is served."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
