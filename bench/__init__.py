"""How fast is Wakeful here, beside the raw limits of this machine and beside its peers, in one run?

`python -m bench` is the short form, `--full` all of it. See README.md.
"""
