"""One run of tuning: candidates looked at, measured, remembered and shown, until the trials are used up."""
