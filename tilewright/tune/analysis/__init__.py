"""Analysis of a candidate's loop nest before compilation: whether it can run, and features for a model."""
