"""An engine that answers with the words of the prompt: the smallest that stands behind the door."""
