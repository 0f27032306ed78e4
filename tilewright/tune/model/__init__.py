"""A machine model: the time of a configuration, predicted from its schedule, for thousands at once."""
