"""Tests of the API find their stage beside them."""
