"""The arguments of calls, for arrays of any library: checks, and conversion to a problem of sizes and options."""
