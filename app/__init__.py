"""The dashboard: pages that show what `probe` concluded. Nothing is computed here."""
