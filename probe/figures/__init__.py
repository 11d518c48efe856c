"""Results in, `go.Figure` out: the one visual language of pages and reports."""
