"""Wakeful."""
