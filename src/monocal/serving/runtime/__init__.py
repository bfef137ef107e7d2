"""What a worker keeps between requests: its models and how they are exchanged, live metrics, and the other workers."""
