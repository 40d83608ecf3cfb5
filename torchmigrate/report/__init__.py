"""What a run found and did, in the formats that people and programs read; only the exit code is decided here."""
