"""The panels of the page, one file a panel, thin over `pcg`: callbacks above, layout below."""
