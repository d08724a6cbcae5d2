"""How the trainer's weights leave it: the trainer side of vLLM's weight-transfer protocol.

source.py         what is sent: the module's parameters, gathered a bucket at a time
bucket.py         many tensors as one run of bytes, and the engine that sends such runs
shared_memory.py, object_store.py, adapter.py, broadcast.py, ipc.py    one way each
client.py         the rollout workers' control plane, with a time limit
sender.py         drives a whole sync, and copes with workers that come and go
"""
