"""Layer 5. What may operators do to a running deployment?"""

from wakeful.operating.acts import Acts as Acts
