"""The answer: verdicts, what is highest and lowest, and the table of variants."""
