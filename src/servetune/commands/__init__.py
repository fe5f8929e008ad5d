"""Commands and manifests that people have, written as studies."""
