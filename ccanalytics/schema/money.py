"""Tables of this group."""
