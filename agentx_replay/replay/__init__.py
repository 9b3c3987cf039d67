"""The closed loop: lanes, session trees, idle clock, warm-up, window and drain."""
