"""The verbs, in the order of the data's way: one file each."""
