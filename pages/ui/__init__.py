"""Components that all pages share."""
