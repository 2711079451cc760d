"""Layer 5. Which code that was written for something else runs here as it is?"""
