"""The prefix cache: full blocks of tokens, each known by what it and all before it hold."""


class PrefixCache:
    def __init__(self, block_size: int, num_blocks: int, enabled: bool) -> None:
        self._block_size = block_size
        self._num_blocks = num_blocks
        self._enabled = enabled
        self._blocks: dict[int, None] = {}

    def cached_tokens(self, tokens: list[int]) -> int:
        """Count the tokens that need no prefill; the last token always does, as in vLLM."""
        found = 0
        for key in self._keys(tokens[:-1]):
            if key not in self._blocks:
                break
            self._blocks[key] = self._blocks.pop(key)
            found += self._block_size
        return found

    def add(self, tokens: list[int]) -> None:
        for key in self._keys(tokens):
            self._blocks.pop(key, None)
            self._blocks[key] = None
        while len(self._blocks) > self._num_blocks:
            del self._blocks[next(iter(self._blocks))]

    def clear(self) -> None:
        self._blocks.clear()

    def _keys(self, tokens: list[int]) -> list[int]:
        if not self._enabled:
            return []
        keys, key = [], 0
        for start in range(0, len(tokens) - self._block_size + 1, self._block_size):
            key = hash((key, *tokens[start : start + self._block_size]))
            keys.append(key)
        return keys
