"""What the collector keeps."""
