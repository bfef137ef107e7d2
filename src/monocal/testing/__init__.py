"""(empty for now)"""
