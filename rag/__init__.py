"""End-to-end RAG: ingest, retrieve, rerank, answer."""
