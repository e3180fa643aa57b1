"""The command line, one file a command. Each has `add(commands)`, which declares the command and who runs it."""
