"""The benchmark: real processes, the public API only, durability on. README.md says how to read it."""

import os

# Before gRPC is imported, here and in every process of a rig: else it complains of each process that is started.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
