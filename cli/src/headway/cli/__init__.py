"""The headway command line."""
