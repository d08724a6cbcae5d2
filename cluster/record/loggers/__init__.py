"""Tools that people watch their runs in, a file each: the numbers of metrics.jsonl go there too, under the same names.

metrics.jsonl, always -+- TensorBoard, unless loggers.to leaves it out
                       +- W&B, MLflow, trackio, or a class of the user's own
"""
