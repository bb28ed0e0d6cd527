"""The coordinator: decides what happens next in every run."""
