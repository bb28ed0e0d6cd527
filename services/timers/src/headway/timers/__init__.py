"""The timers service: finds what is due and tells the coordinator."""
