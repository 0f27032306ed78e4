"""Idiom recognition: convolutions and their gradients, found in declarations of any form, run packaged strategies."""
