"""Knob spaces and templates, search strategies, features, cost models, records, and tuning sessions."""
