"""What pages share: shell, palette, figures, the plot component."""
