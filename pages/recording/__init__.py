"""What Behaviour and Your data share: recordings of behaviour, or any trials with labels, on pages/lab. No page itself."""
