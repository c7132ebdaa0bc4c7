"""What goes over the wire: paths of questions, selectors as text, documents of answers and of discovery."""
