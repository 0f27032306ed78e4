"""The arguments of a call of any library: checked, and turned into a problem of sizes and options."""
