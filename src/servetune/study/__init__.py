"""What a user declares: params.yaml and a study, a file for each of its sections."""
