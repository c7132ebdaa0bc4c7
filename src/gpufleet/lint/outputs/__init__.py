"""Reports in the forms that people and programs read, one module for each."""
