"""The benchmark: real processes, the public API only, durability on. README.md says how to read it."""
