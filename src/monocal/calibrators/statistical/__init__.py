"""Wide logistic regression, what it carries over, and how it is refreshed."""
