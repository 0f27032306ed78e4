"""One run of tuning: candidates inspected, measured, remembered and shown, until the trials are used up."""
