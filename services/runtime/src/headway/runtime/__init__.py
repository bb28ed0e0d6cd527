"""What every Headway service process shares: settings, logs, telemetry, serving, draining."""

import os

# gRPC reads it when it is imported. It writes of each connection that goes away, on stderr, past all handlers of logs.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
