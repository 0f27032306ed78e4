"""Floor 9: devices, arrays, callable modules, and timing them."""
