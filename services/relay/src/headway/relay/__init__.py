"""The relay: carries out the outbox after its transaction has committed."""
