"""Parts of the operator library that only the legacy API names: schedules by kind of target, and NumPy references."""
