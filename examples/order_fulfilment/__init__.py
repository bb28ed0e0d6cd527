"""Orders from reservation to parcel, through a shop that fails and processes that are killed: `make demo`."""
