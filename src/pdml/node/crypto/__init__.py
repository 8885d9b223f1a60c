"""Keys, signatures, sealed messages, TLS."""
