"""The coordinator's face: gRPC in, refusals out. The only room that knows grpc and the generated messages."""
