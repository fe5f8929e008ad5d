"""A stand-in for vLLM that starts in a moment: its server, its metrics and its load client.

`standin` holds the model of an engine; the other modules have vLLM's names, because they are
found under them. Nothing here computes with a model: the timing is real, the text is not.
"""

__version__ = "0.32.0+standin"
