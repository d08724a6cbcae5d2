"""How turns share what they brought: one class in a file of its name each."""
