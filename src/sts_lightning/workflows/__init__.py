"""What a command does from start to end."""
