"""A machine model, which predicts the times of thousands of configurations at once from their schedules."""
