"""Layer 5. Machines that lived elsewhere, brought in."""
