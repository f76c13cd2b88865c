"""Response recovery: detection, envelopes, joins and the resume loop, against an independent parser."""
