"""Games as text: dialogues as tokens, language models that are asked, embeddings."""
