"""Logistic regression on the score and one shift per field value: fit, penalties, intervals and refresh."""
