"""Studies: data × calibrators × seeds, run cell by cell, judged on labels that only the evaluator opens."""
