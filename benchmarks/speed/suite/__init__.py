"""The parts of the speed record: `python benchmarks/speed/record.py`."""
