"""Floor 6: the loop grammar, its builder, printer, verifier and interpreter."""
