"""Bounds of the API: what one caller may request in one call or concurrently."""

MAX_BODY_BYTES = 4 << 20
MAX_ADDRESS = 64 << 10  # path and query
MAX_DISCARDED_BYTES = 64 << 20
DISCARD_S = 10.0
MAX_REQUEST_ID = 128
MAX_PAGE = 10_000
DEFAULT_PAGE = 100
MAX_BULK = 10_000
MAX_TASK_PIECES = 5_000  # of task sets named in one request
MAX_READ_HERE = 1_000  # words or hosts that the event loop reads itself; more of them are read in a thread
MAX_DECODED_HERE = 32 << 10  # bytes of a request that the event loop decodes itself, for the same reason
MAX_ENCODED_HERE = 200  # records of an answer, likewise
MAX_BATCH = 500  # one entry of the log holds as many
BULK_BATCH = 128
MAX_WAIT_S = 60.0
DEFAULT_WAIT_S = 30.0
KEEP_ALIVE_S = 15.0
KEPT_CHANGES = 20_000
MAX_WATCHED_IDS = 1000
OUTPUT_PIECE_BYTES = 256 << 10
