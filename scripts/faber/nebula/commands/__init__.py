"""The commands `faber nebula` and `faber heal`: arguments in, one JSON object out."""
