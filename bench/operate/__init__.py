"""What the operation of nodes costs. Each part is a module with ``figures``; ``__main__`` runs them all."""
