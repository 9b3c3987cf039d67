"""Pure functions over result tables: metrics, curve, confidence, cost, comparison."""
