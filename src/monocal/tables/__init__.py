"""Any table in, any table out: Parquet, CSV and whatever speaks the Arrow C stream interface."""
