"""Settings of the reward service. Plain pydantic: no torch, vllm or ray."""
