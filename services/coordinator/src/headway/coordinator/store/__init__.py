"""The rooms behind the reducer: SQL and its driver. Nothing here decides."""
