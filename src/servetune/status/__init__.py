"""What is there of a study at any time, and what runs, from any terminal."""
