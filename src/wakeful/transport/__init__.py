"""Layer 2. How do bytes travel between processes?"""
