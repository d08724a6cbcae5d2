"""Intrinsic reward from feedback on what happened, annotated beside the traffic. See `shaper`."""
