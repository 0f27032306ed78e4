"""What a target adds to a schedule before loops are built: loops of the compiler's own instead of the schedule's."""
