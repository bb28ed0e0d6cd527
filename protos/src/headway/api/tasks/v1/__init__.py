"""Generated from the .proto files of headway.api.tasks.v1."""
