"""Networks and clusters that a stack uses but does not own: facts about them, and what these facts rule out."""
