"""Sites: parties on machines of their own, what they allow, what left them, and the bytes that cross."""
