"""What several panels use: blocks, messages, figures, token strips and terms."""
