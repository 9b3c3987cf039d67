"""What was measured: record schema, recorder, run directory, histograms."""
