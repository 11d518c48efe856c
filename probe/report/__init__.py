"""A report: one HTML file that holds figures, tables and findings, and asks nobody for anything."""
