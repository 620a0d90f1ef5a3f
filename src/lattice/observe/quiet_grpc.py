"""Import this before anything that imports gRPC: its C core reads these once, and writes to stderr past every handler of ours.

Processes of ours start others by exec, so forks are none of its business; what goes wrong reaches us as exceptions.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
