"""The pure part: what a workflow is and what happens to a run, without any input or output."""
