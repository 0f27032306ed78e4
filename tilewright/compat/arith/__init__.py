"""Integer analysis that only scripts ask for: `Analyzer`, integer sets, systems of equations and inequalities."""
