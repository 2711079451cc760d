"""Layer 5. How do programs in any language call, watch and operate a deployment?"""
