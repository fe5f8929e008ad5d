"""The answer: what is proven where the study is decided, and one row a variant."""
