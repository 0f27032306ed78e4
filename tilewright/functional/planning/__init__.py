"""The plan of a problem: our kernel or the other library's, its configuration, and the measurements behind both."""
