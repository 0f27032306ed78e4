"""Records: measurements as lines of a log, appended safely, read back, and the best of them."""
