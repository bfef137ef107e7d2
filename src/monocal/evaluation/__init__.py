"""Numbers one can trust: evaluations of forecasts, comparisons, errors by field value."""
