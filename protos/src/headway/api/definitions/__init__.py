"""Generated from the .proto files of headway.api.definitions."""
