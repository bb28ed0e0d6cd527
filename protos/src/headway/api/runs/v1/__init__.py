"""Generated from the .proto files of headway.api.runs.v1."""
