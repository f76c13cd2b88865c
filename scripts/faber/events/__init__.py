"""Events: their types, the typed functions that make them, and how documents are described and checked."""
