"""Expressions of CEL, the language of admission policies, made from the data of lint's rules."""
