"""The losses of the policy: one class in a file of its name each."""
