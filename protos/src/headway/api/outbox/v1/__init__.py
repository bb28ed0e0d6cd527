"""Generated from the .proto files of headway.api.outbox.v1."""
