"""llama.cpp, served by the binding xllamacpp; `inside_*` runs in its environment, `llama-cpp`."""
