"""Fast training steps: decisions about whole layers and whole backward passes."""
