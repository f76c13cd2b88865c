"""What every command shares: arguments, the invocation, answers and errors as they are printed, prompts."""
