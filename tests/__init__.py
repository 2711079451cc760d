"""The tests, one folder for each kind (CONTRIBUTING.md): helpers are imported by their whole name, `tests.unit.cells`."""
