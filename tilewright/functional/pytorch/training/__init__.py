"""Training steps by the shortest path: decisions about whole layers and whole backward passes."""
