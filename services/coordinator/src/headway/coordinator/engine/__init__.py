"""The coordinator's shell: lanes that commit what was asked in groups. It may not choose."""
