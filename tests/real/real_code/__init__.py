"""Functions that nobody here wrote, and the proof that ndual differentiates them."""
