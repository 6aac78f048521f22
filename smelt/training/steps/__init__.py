"""One optimizer step: data, schedule, update, log."""
