"""The benchmark: real processes, the public API only, durability on."""
