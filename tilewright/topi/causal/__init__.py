"""Short causal convolutions, as sequence models use them: programs that serve every batch size and every length."""
