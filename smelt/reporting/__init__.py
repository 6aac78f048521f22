"""What a person reads: tables as CSV, figures as PDF, SVG and PNG."""
