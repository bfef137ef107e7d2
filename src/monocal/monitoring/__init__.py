"""After the fit: the next generation, may it be promoted, which one is active, is it still calibrated?"""
