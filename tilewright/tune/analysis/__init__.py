"""What a candidate's loop nest tells before it is compiled: whether it can run, and features for a model."""
