"""The protobuf contract of Headway: messages, services and their generated stubs."""
