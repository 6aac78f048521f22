"""What a person sees while a network trains, and what training costs."""
