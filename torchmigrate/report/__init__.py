"""What a run found and did, in the formats that people and programs read. Nothing here decides anything but exit codes."""
