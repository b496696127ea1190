"""Reverse mode, an add-on to ndual that is not written yet: ``mode="reverse"`` raises ``NdualError``."""
