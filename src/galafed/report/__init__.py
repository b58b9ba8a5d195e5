"""What people look at: live display, tables and pictures."""
