"""Things that tests share and that worker processes can import."""
