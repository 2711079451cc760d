"""Layer 5. What may operators do to a running deployment?"""

from wakeful.operations.acts import Acts as Acts
